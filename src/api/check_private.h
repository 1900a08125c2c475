/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of arguments, shared by the public functions. Each names the argument, the value and the remedy. */
#ifndef TT_API_CHECK_H
#define TT_API_CHECK_H

#include "comm/comm.h"

/* tuttiInvalidArgument: `name` is NULL. */
tuttiResult_t tt_null(const char *name);

/* tuttiInvalidUsage in a forked child. Every call that touches shared state begins with it. */
tuttiResult_t tt_process_check(void);

/* The handle is one of ours and the process is not a forked child. */
tuttiResult_t tt_comm_check(const struct tuttiComm *comm);
tuttiResult_t tt_stream_check(const struct tuttiStream *stream);

/* tuttiFloat32, tuttiFloat16, tuttiBfloat16, or undefined. */
static inline int tt_is_wire_type(int type)
{
  return type == TUTTI_CONFIG_UNDEF_INT || type == tuttiFloat32 || type == tuttiFloat16 || type == tuttiBfloat16;
}
#define TT_WIRE_TYPES_TEXT "tuttiFloat32 (7), tuttiFloat16 (6) or tuttiBfloat16 (9)"

/* The communicator accepts operations. */
tuttiResult_t tt_comm_ready_check(const struct tuttiComm *comm);

#endif
