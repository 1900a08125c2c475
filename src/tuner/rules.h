/* SPDX-License-Identifier: BSD-3-Clause */
/* A table file (TUTTI_TABLE): rules, written by hand or by a program, that override the model. Pure.
 *
 * Each line is a rule; a '#' begins a comment. The first rule that matches counts; if none does, the model decides:
 *
 *   COLLECTIVE [ranks R] [nodes R] [ppn R] [bytes R] -> NAME[+MIDDLE][/RADIX] [block SIZE]
 *   all_reduce ranks 2..8 nodes 1 bytes 0..16KiB -> recursive_doubling
 *
 * R is N, FROM..TO or FROM..inf, both ends included; a key that is left out matches anything. Keys come in any order.
 * nodes: the number of nodes; ppn: ranks on the node that has most; bytes: the size of a share. bytes and SIZE may end
 * in K, M, G, or KiB, MiB, GiB: powers of 1,024. Names are written as in TUTTI_ALGO (tuner/algo_filter.h), but NCCL's
 * words other than ring mean nothing here. A rule that names no radix or block leaves them as they are without it. The
 * radix may also be given after the name, as radix N. */
#ifndef TT_RULES_H
#define TT_RULES_H

#include <stdio.h>

#include "tuner/choice.h"

#define TT_RULES 4096 /* in a file */
#define TT_RULES_NAME 200

struct tt_limits {
  uint64_t from, to; /* to: UINT64_MAX for inf */
};

struct tt_rule {
  int32_t line, collective;
  struct tt_limits ranks, nodes, ppn, bytes;
  struct tt_algo_filter choice;
  uint32_t block_bytes; /* 0: not said */
};

struct tt_rules {
  char name[TT_RULES_NAME]; /* of the file, for messages */
  int32_t n;
  struct tt_rule *rule;
};

/* The placement of ranks, as rules see it. */
struct tt_rule_place {
  int32_t nranks, nnodes, ppn;
};

/* Reads one; *rules is written on success only. Errors: tuttiInvalidArgument naming the file, the line and what was
 * wanted: also a rule that can never match because an earlier one covers it. tuttiSystemError: no memory. */
tuttiResult_t tt_rules_parse(struct tt_rules *rules, FILE *in, const char *name);

/* The same from a file. Also tuttiInvalidArgument: it cannot be read. */
tuttiResult_t tt_rules_load(struct tt_rules *rules, const char *path);

/* NULL and a zeroed one are allowed. */
void tt_rules_destroy(struct tt_rules *rules);

/* 1 if the rule is about the collective at that place, for some size. */
int tt_rule_matches(const struct tt_rule *rule, int collective, const struct tt_rule_place *place);

/* The choice of the rule. */
struct tt_choice tt_rule_choice(const struct tt_rule *rule, const struct tt_settings *settings,
                                const struct tt_tuning *tuning);

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_rule_place_find(struct tt_rule_place *place, const struct tt_tuning *tuning);

/* Cuts the rows of a collective, of which the last has UINT64_MAX, at the limits of the rules that match. Errors:
 * tuttiInvalidArgument: such a rule's algorithm is not legal there, or there are more than TT_TABLE_ROWS rows then. */
tuttiResult_t tt_rules_apply(const struct tt_rules *rules, struct tt_table_row *rows, int collective,
                             const struct tt_settings *settings, const struct tt_tuning *tuning);

#endif
