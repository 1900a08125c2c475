/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces with a codec. */
#ifndef TT_API_CODED_H
#define TT_API_CODED_H

#include "comm/comm.h"

/* Carries out an all-reduce whose arguments were checked, but for the codec that the options have. Returns
 * tuttiSuccess, or what the call returns. */
tuttiResult_t tt_coded_begin(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding,
                             const tuttiReduceOptions_t *options);

#endif
