/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion that goes on over another communicator. Private to this folder, included by private.h. */
#ifndef TT_FUSION_MOVE_PRIVATE_H
#define TT_FUSION_MOVE_PRIVATE_H

#include "base/base.h"

struct config;
struct tuttiFusion;

/* The fate of the planes of the step before the last one. */
enum kept {
  KEPT_SAME,   /* they are those of the last one, which left them as they were */
  KEPT_BEFORE, /* the other copies have them */
  KEPT_NOTHING /* they are gone */
};

/* Part of the config. */
struct moving {
  uint64_t made;  /* a number of the call that made the fusion, the same on all its ranks; once options are compared */
  int has_come; /* this rank has a fusion that moves here */
  int is_any;   /* some rank has; known once the options are compared, the same on all ranks */
};

/* Part of the coding. */
struct past {
  uint64_t steps; /* of the fusions from which this one was moved: its own steps count from 1 */
  enum kept kept; /* of step coding.step - 1 */
};

/* Takes over the state of `from`, NULL: this rank is new. Collective, before the engine begins. Errors are those of all
 * ranks: tuttiInvalidUsage: their states are of steps that do not go together; tuttiSystemError; of the channel. */
tuttiResult_t tt_fusion_take(struct tuttiFusion *fusion, struct tuttiFusion *from);

/* create.c: ends the engine, after the step under way, with servers once all ranks have, and then the channels. Errors:
 * as tt_comm_destroy. */
tuttiResult_t tt_fusion_stop(struct tuttiFusion *fusion);

/* coded.c: waits until the engine has ended the last step, unless it has failed. Errors: a step is under way for the
 * caller. */
tuttiResult_t tt_fusion_rest(struct tuttiFusion *fusion);

#endif
