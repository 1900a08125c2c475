/* SPDX-License-Identifier: BSD-3-Clause */
/* How a reduction is carried out: wire type, scales, overflow report. */
#ifndef TT_API_FORM_H
#define TT_API_FORM_H

#include "comm/comm.h"

/* A copy that has all fields of this version, whatever size the program knew. tuttiInvalidArgument if it was not
 * initialised. */
tuttiResult_t tt_options_take(tuttiReduceOptions_t *copy, const tuttiReduceOptions_t *options);

/* The rest of tt_form_bind: of a reduction that does more than combine. */
tuttiResult_t tt_form_bind_more(const struct tuttiComm *comm, const tuttiReduceOptions_t *options,
                                struct tt_binding *binding);

/* Checks the options (NULL: none) of the reduction that the binding has, and sets form, before and overflow there. */
static inline tuttiResult_t tt_form_bind(const struct tuttiComm *comm, const tuttiReduceOptions_t *options,
                                         struct tt_binding *binding)
{
  if (!options && comm->wire_type == tuttiFloat32) return tuttiSuccess; /* short messages feel a call */
  return tt_form_bind_more(comm, options, binding);
}

#endif
