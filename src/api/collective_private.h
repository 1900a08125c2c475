/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of arguments that several collectives share, and how a checked call begins. */
#ifndef TT_API_COLLECTIVE_H
#define TT_API_COLLECTIVE_H

#include "comm/comm.h"

tuttiResult_t tt_type_check(int type);

/* Checks the buffer of a message, called `name` in errors, of count elements. */
tuttiResult_t tt_transfer_check(const struct tuttiComm *comm, const struct tuttiStream *stream, const void *buffer,
                                const char *name, size_t count, int type);

/* Sets the operation of a reduction of binding->call.type. */
tuttiResult_t tt_redop_bind(const struct tuttiComm *comm, int op, struct tt_binding *binding);

/* Carries out a call that was checked: now, in the open group, or on the stream. */
tuttiResult_t tt_call_begin(struct tuttiComm *comm, struct tuttiStream *stream, struct tt_binding *binding);

#endif
