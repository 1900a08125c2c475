/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces by a codec, priced. */
#ifndef TT_EXPLAIN_CODEC_H
#define TT_EXPLAIN_CODEC_H

#include "codec/codec.h"
#include "explain/hypothetical.h"

/* Reads the type in which weights travel, NULL if sums do: *weights gets the bytes of one, 0 if there are none. Errors:
 * tuttiInvalidArgument: there is no such type, or the codec, whose row may be NULL, does not go to owners. */
tuttiResult_t tt_explain_update(const char *update, const struct tt_codec *codec, size_t *weights);

/* Prints bytes and times of an all-reduce of so many floats by the request's codec or update, act by act, beside those
 * of floats as they are, and from how many ranks these take less time. Errors: tuttiInvalidArgument: the codec or
 * update is wrong, or not for so many elements; as tt_table_make. */
tuttiResult_t tt_explain_codec(FILE *out, const struct tt_explain_request *request, uint64_t count,
                               const struct tt_hypothetical *place);

#endif
