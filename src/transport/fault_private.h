/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules of the fault decorator; fault.c tells how they are written. */
#ifndef TT_TRANSPORT_FAULT_H
#define TT_TRANSPORT_FAULT_H

#include "base/base.h"

#define TT_FAULT_RULES 16

enum tt_fault_action {
  TT_FAULT_NONE,
  TT_FAULT_DELAY,   /* value: nanoseconds */
  TT_FAULT_SHORT,   /* value: bytes */
  TT_FAULT_DROP,
  TT_FAULT_CORRUPT,
  TT_FAULT_KILL,
  TT_FAULT_STOP
};

enum tt_fault_side { TT_FAULT_SEND, TT_FAULT_RECV };

struct tt_fault_rule {
  int rank, peer, lane; /* -1: any */
  enum tt_fault_side side;
  uint64_t nth;         /* 0: every message */
  enum tt_fault_action action;
  uint64_t value;
  uint64_t count;       /* messages that matched so far */
};

struct tt_fault_rules {
  int n;
  struct tt_fault_rule rule[TT_FAULT_RULES];
};

/* Errors: tuttiInvalidArgument naming the rule and what is wrong with it. */
tuttiResult_t tt_fault_rules_parse(struct tt_fault_rules *rules, const char *text);

#endif
