/* SPDX-License-Identifier: BSD-3-Clause */
/* How a reduction is carried out: wire type, scales, overflow report. */
#ifndef TT_API_FORM_H
#define TT_API_FORM_H

#include "comm/comm.h"

/* tuttiFloat32, tuttiFloat16, tuttiBfloat16, or undefined. */
static inline int tt_is_wire_type(int type)
{
  return type == TUTTI_CONFIG_UNDEF_INT || type == tuttiFloat32 || type == tuttiFloat16 || type == tuttiBfloat16;
}
#define TT_WIRE_TYPES_TEXT "tuttiFloat32 (7), tuttiFloat16 (6) or tuttiBfloat16 (9)"

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
  if (!options && tt_comm_facts(comm)->wire_type == tuttiFloat32) return tuttiSuccess; /* short messages feel a call */
  return tt_form_bind_more(comm, options, binding);
}

#endif
