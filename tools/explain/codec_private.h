/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces by a codec, priced. */
#ifndef TT_EXPLAIN_CODEC_H
#define TT_EXPLAIN_CODEC_H

#include "explain/hypothetical.h"

/* Prints bytes and times of an all-reduce of so many floats by the request's codec, act by act, beside those of floats
 * as they are, and from how many ranks these take less time. Errors: tuttiInvalidArgument: the codec is wrong, or not
 * for so many elements; as tt_table_make. */
tuttiResult_t tt_explain_codec(FILE *out, const struct tt_explain_request *request, uint64_t count,
                               const struct tt_hypothetical *place);

#endif
