/* SPDX-License-Identifier: BSD-3-Clause */
/* The verifier on programs written by hand, each right or with one fault.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sched/sched.h"
#include "schedule/proof_private.h"
#include "schedule/text_private.h"

#define MAX_RANKS 4

/* Steps as in the text form, without numbers, of each rank. */
struct program {
  int32_t nranks, nblocks;
  const char *complaint; /* part of it; NULL: it is right */
  const char *steps[MAX_RANKS];
  int collective; /* 0: all-reduce */
  int32_t root;
  const int32_t *order; /* of the ranks; NULL: as they are */
  int is_uneven;        /* shares have any lengths */
};

static struct tt_shape shape_of(const struct program *program)
{
  struct tt_shape shape = {.collective = program->collective ? program->collective : TT_ALL_REDUCE,
                           .nranks = program->nranks, .nblocks = program->nblocks, .root = -1};
  if (tt_kinds[shape.collective].has_root) shape.root = program->root;
  return shape;
}

/* Makes the text form: the numbers and the counts of the header are filled in. */
static void program_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct program *program = context;
  char text[4096], body[3500], lines[3000], root[32] = "", *rest = lines;
  int n = 0, slots = 0;
  size_t used = 0;
  snprintf(lines, sizeof lines, "%s", program->steps[shape->rank]);
  for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    if (line[0] == '#')
      slots = atoi(line + 1);
    else
      used += (size_t)snprintf(body + used, sizeof body - used, "%d %s\n", n++, line);
  body[used] = 0;
  if (shape->root >= 0) snprintf(root, sizeof root, "root %d ", (int)shape->root);
  snprintf(text, sizeof text, "schedule %s ranks %d rank %d blocks %d %sscratch %d steps %d\n%s",
           tt_kinds[shape->collective].name, (int)shape->nranks, (int)shape->rank, (int)shape->nblocks, root, slots, n,
           body);
  FILE *in = fmemopen(text, strlen(text), "r");
  if (tt_schedule_parse(schedule, in) != tuttiSuccess) fail_msg("%s in\n%s", tt_last_sentence(), text);
  fclose(in);
}

static void is_judged(struct program program)
{
  struct tt_proof proof = {.order = program.order, .is_uneven = program.is_uneven};
  struct tt_shape shape = shape_of(&program);
  tuttiResult_t code = tt_verify(&shape, program_generate, &program, &proof);
  if (!program.complaint) {
    assert_string_equal(proof.complaint, "");
    assert_int_equal(code, tuttiSuccess);
    return;
  }
  assert_int_equal(code, tuttiInternalError);
  if (!strstr(proof.complaint, program.complaint))
    fail_msg("wanted \"%s\" in \"%s\"", program.complaint, proof.complaint);
}

static struct tt_proof proof_of(struct program program)
{
  struct tt_proof proof = {.order = program.order};
  struct tt_shape shape = shape_of(&program);
  if (tt_verify(&shape, program_generate, &program, &proof)) fail_msg("%s", proof.complaint);
  return proof;
}

/* Rank 1 of a right exchange of two ranks; the faults below are planted in rank 0. */
#define EXCHANGE_1 \
  "#1\nsend [0,1) in:0 -> rank 0\nrecv [0,1) msg:0 -> scratch:0\n" \
  "reduce [0,1) scratch:0 + in:0 -> out:0"

static void exchange_is_judged(const char *complaint, const char *rank0)
{
  is_judged((struct program){.nranks = 2, .nblocks = 1, .complaint = complaint, {rank0, EXCHANGE_1}});
}

static void right_programs_pass(void **state)
{
  (void)state;
  exchange_is_judged(NULL, "#1\nsend [0,1) in:0 -> rank 1\nrecv [0,1) msg:1 -> scratch:0\n"
                           "reduce [0,1) in:0 + scratch:0 -> out:0");
  is_judged((struct program){.nranks = 1, .nblocks = 3,
    .complaint = NULL, {"copy [0,2) in:0 -> out:0\ncopy [2,3) in:2 -> out:2"}});
  /* rank 0 collects three messages in one step and gives the result to all in one */
  is_judged((struct program){.nranks = 4, .nblocks = 2, .complaint = NULL,
    {"reduce [0,2) in:0 + msg:1 + msg:2 + msg:3 -> out:0, rank 1, rank 2, rank 3 channel 1",
     "send [0,2) in:0 -> rank 0 channel 1\nrecv [0,2) msg:0 -> out:0 channel 1",
     "send [0,2) in:0 -> rank 0 channel 1\nrecv [0,2) msg:0 -> out:0 channel 1",
     "send [0,2) in:0 -> rank 0 channel 1\nrecv [0,2) msg:0 -> out:0 channel 1"}});
  /* a result that is only sent; a message that is kept and passed on */
  is_judged((struct program){.nranks = 3, .nblocks = 1, .complaint = NULL,
    {"send [0,1) in:0 -> rank 1\nrecv [0,1) msg:1 -> out:0",
     "#1\nrecv [0,1) msg:0 -> scratch:0\nreduce [0,1) scratch:0 + in:0 -> rank 2\n"
     "pass [0,1) msg:2 -> out:0, rank 0",
     "reduce [0,1) msg:1 + in:0 -> out:0\nsend [0,1) out:0 -> rank 1"}});
}

static void an_exchange_in_place_without_scratch_waits_for_ever(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 2, .nblocks = 1, .complaint =
    "rank 0, step 0: waits for ever, being its oldest unfinished step, on rank 1 to take its message in its step 1, "
    "which is at its step 0",
    {"send [0,1) in:0 -> rank 1\nreduce [0,1) in:0 + msg:1 -> out:0",
     "send [0,1) in:0 -> rank 0\nreduce [0,1) msg:0 + in:0 -> out:0"}});
}

static void two_who_both_receive_first_wait_for_ever(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 2, .nblocks = 1, .complaint =
    "rank 0, step 0: waits for ever, being its oldest unfinished step, on rank 1 for a message of its step 1, "
    "which is at its step 0",
    {"#1\nrecv [0,1) msg:1 -> scratch:0\nreduce [0,1) in:0 + scratch:0 -> out:0\n"
     "send [0,1) out:0 -> rank 1",
     "recv [0,1) msg:0 -> out:0\nsend [0,1) out:0 -> rank 0"}});
}

static void messages_of_one_step_come_together(void **state)
{
  (void)state;
  /* rank 2 has nothing for rank 0 before rank 0 took from rank 1 */
  is_judged((struct program){.nranks = 3, .nblocks = 1, .complaint = "rank 0, step 0: waits for ever",
    {"reduce [0,1) in:0 + msg:1 + msg:2 -> out:0\nsend [0,1) out:0 -> rank 1",
     "send [0,1) in:0 -> rank 0\nrecv [0,1) msg:0 -> out:0\nsend [0,1) out:0 -> rank 2",
     "recv [0,1) msg:1 -> out:0\nsend [0,1) out:0 -> rank 0"}});
}

static void both_ends_of_a_message_must_exist_and_agree(void **state)
{
  (void)state;
  exchange_is_judged("rank 1, step 1: waits for a message from rank 0 on channel 0 that is never sent",
                     "#1\nrecv [0,1) msg:1 -> scratch:0\nreduce [0,1) in:0 + scratch:0 -> out:0");
  exchange_is_judged("rank 1, step 0: sends to rank 0 on channel 0 what it never receives",
                     "send [0,1) in:0 -> rank 1");
  exchange_is_judged("rank 1, step 1: waits for a message from rank 0 on channel 0 that is never sent",
                     "#1\nsend [0,1) in:0 -> rank 1 channel 3\nrecv [0,1) msg:1 -> scratch:0\n"
                     "reduce [0,1) in:0 + scratch:0 -> out:0");
  is_judged((struct program){.nranks = 2, .nblocks = 2,
    .complaint = "rank 1, step 0: sends blocks [0,2) to rank 0, whose step 0 takes them as [0,1)",
    {"reduce [0,1) in:0 + msg:1 -> out:0", "send [0,2) in:0 -> rank 0"}});
}

static void wrong_reads_are_named(void **state)
{
  (void)state;
  exchange_is_judged("rank 0, step 0: reads OUT block 0, which nobody wrote",
                     "#1\nsend [0,1) out:0 -> rank 1\nrecv [0,1) msg:1 -> scratch:0");
  exchange_is_judged("rank 0, step 2: reads scratch slot 1, which holds nothing",
                     "#2\nsend [0,1) in:0 -> rank 1\nrecv [0,1) msg:1 -> scratch:0\n"
                     "reduce [0,1) in:0 + scratch:1 -> out:0");
  exchange_is_judged("rank 0, step 2: reads IN block 0 after OUT block 0 was written",
                     "send [0,1) in:0 -> rank 1\nrecv [0,1) msg:1 -> out:0\n"
                     "reduce [0,1) in:0 + out:0 -> out:0");
}

static void a_packed_span_is_read_from_its_start(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 1, .nblocks = 3, .complaint = NULL, /* its first blocks may be read alone */
    {"#3\ncopy [0,3) in:0 -> scratch:0\ncopy [0,2) scratch:0 -> out:0\ncopy [2,3) in:2 -> out:2"}});
  is_judged((struct program){.nranks = 1, .nblocks = 3, .complaint =
    "step 1: reads block 1 from the span at scratch slot 1, but block 1 of the span at slot 0 was written there",
    {"#3\ncopy [0,3) in:0 -> scratch:0\ncopy [1,3) scratch:1 -> out:1"}});
  is_judged((struct program){.nranks = 1, .nblocks = 2, .complaint =
    "step 2: reads block 1 from the span at scratch slot 0, but block 1 of the span at slot 1 was written there",
    {"#2\ncopy [0,1) in:0 -> scratch:0\ncopy [1,2) in:1 -> scratch:1\ncopy [0,2) scratch:0 -> out:0"}});
  is_judged((struct program){.nranks = 1, .nblocks = 2, .complaint =
    "step 1: reads block 1 from the span at scratch slot 0, but block 0 of the span at slot 0 was written there",
    {"#1\ncopy [0,1) in:0 -> scratch:0\ncopy [1,2) scratch:0 -> out:1"}});
  /* slot 1 also held the start of block 2, which is packed behind block 1 */
  is_judged((struct program){.nranks = 1, .nblocks = 3,
    .complaint = "step 2: reads scratch slot 2, which holds nothing",
    {"#3\ncopy [0,3) in:0 -> scratch:0\ncopy [1,2) in:1 -> scratch:1\ncopy [2,3) scratch:2 -> out:2"}});
  is_judged((struct program){.nranks = 1, .nblocks = 3, .complaint = NULL, /* but what lies before the new span stays */
    {"#3\ncopy [0,3) in:0 -> scratch:0\ncopy [1,2) in:1 -> scratch:1\ncopy [0,1) scratch:0 -> out:0\n"
     "copy [1,2) scratch:1 -> out:1\ncopy [2,3) in:2 -> out:2"}});
}

#define SEND "send [0,1) in:0 -> rank 1\n"
#define PARK "recv [0,1) msg:1 -> scratch:0\n"

static void wrong_operands_are_named(void **state)
{
  (void)state;
  exchange_is_judged("rank 0, step 2: source 1 holds rank 0 and stands behind rank 1's",
                     "#1\n" SEND PARK "reduce [0,1) scratch:0 + in:0 -> out:0");
  exchange_is_judged("rank 0, step 3: adds rank 0's contribution twice",
                     "#2\n" SEND PARK "copy [0,1) in:0 -> scratch:1\nreduce [0,1) in:0 + scratch:1 -> out:0");
  /* a chain of sums in rank order: only the first source must hold the lowest rank */
  is_judged((struct program){.nranks = 3, .nblocks = 1, .complaint = NULL,
    {"#2\nrecv [0,1) msg:2 -> scratch:0\nrecv [0,1) msg:1 -> scratch:1\n"
     "reduce [0,1) in:0 + scratch:0 + scratch:1 -> out:0\nsend [0,1) out:0 -> rank 1, rank 2",
     "send [0,1) in:0 -> rank 0\nrecv [0,1) msg:0 -> out:0",
     "send [0,1) in:0 -> rank 0\nrecv [0,1) msg:0 -> out:0"}});
}

static void the_end_is_judged(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 2, .nblocks = 1,
    .complaint = "rank 0: OUT block 0 lacks rank 1's contribution at the end",
    {"copy [0,1) in:0 -> out:0", "copy [0,1) in:0 -> out:0"}});
  is_judged((struct program){.nranks = 1, .nblocks = 2,
    .complaint = "rank 0: OUT block 1 is never written", {"copy [0,1) in:0 -> out:0"}});
  is_judged((struct program){.nranks = 1, .nblocks = 1, .complaint = "rank 0: OUT block 0 is never written", {""}});
}

#define GATHER(a, b) \
  "#2\nsend [0,1) in:0 -> rank " #a ", rank " #b "\nrecv [0,1) msg:" #a " -> scratch:0\n" \
  "recv [0,1) msg:" #b " -> scratch:1\n"

static void all_ranks_must_add_in_the_same_order(void **state)
{
  (void)state;
  struct program program = {.nranks = 3, .nblocks = 1, .complaint = NULL,
    {GATHER(1, 2) "reduce [0,1) in:0 + scratch:0 -> out:0\nreduce [0,1) out:0 + scratch:1 -> out:0",
     GATHER(0, 2) "reduce [0,1) scratch:0 + in:0 -> out:0\nreduce [0,1) out:0 + scratch:1 -> out:0",
     GATHER(0, 1) "reduce [0,1) scratch:0 + scratch:1 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + in:0 -> out:0"}};
  is_judged(program);
  program.complaint = "rank 2: OUT block 0 was combined in another order than on rank 0, so the bits differ";
  program.steps[2] = GATHER(0, 1) "reduce [0,1) scratch:1 + in:0 -> scratch:1\n"
                                  "reduce [0,1) scratch:0 + scratch:1 -> out:0";
  is_judged(program);
  /* one step with three sources rounds once, two steps round twice */
  program.steps[2] = GATHER(0, 1) "reduce [0,1) scratch:0 + scratch:1 + in:0 -> out:0";
  is_judged(program);
}

static void a_span_over_the_end_is_one_step(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 2, .nblocks = 4, .complaint = NULL,
    .steps = {"#4\nsend [3,7) in:3 -> rank 1\nrecv [3,7) msg:1 -> scratch:0\nreduce [3,7) in:3 + scratch:0 -> out:3",
              "#4\nsend [3,7) in:3 -> rank 0\nrecv [3,7) msg:0 -> scratch:0\n"
              "reduce [3,7) scratch:0 + in:3 -> out:3"}});
}

static void every_collective_is_judged_by_its_own_rule(void **state)
{
  (void)state;
  static const struct program programs[] = {
    {.collective = TT_BROADCAST, .nranks = 2, .nblocks = 1, .root = 1, .complaint = NULL,
     .steps = {"recv [0,1) msg:1 -> out:0", "send [0,1) in:0 -> rank 0\ncopy [0,1) in:0 -> out:0"}},
    {.collective = TT_BROADCAST, .nranks = 2, .nblocks = 1,
     .root = 1, .complaint = "rank 1: OUT block 0 is never written",
     .steps = {"recv [0,1) msg:1 -> out:0", "send [0,1) in:0 -> rank 0"}},
    {.collective = TT_REDUCE, .nranks = 2, .nblocks = 1, .root = 1, .complaint = NULL,
     .steps = {"send [0,1) in:0 -> rank 1", "reduce [0,1) msg:0 + in:0 -> out:0"}},
    {.collective = TT_REDUCE, .nranks = 2, .nblocks = 1, .root = 1,
     .complaint = "rank 1: OUT block 0 lacks rank 0's contribution", .steps = {"", "copy [0,1) in:0 -> out:0"}},
    {.collective = TT_GATHER, .nranks = 2, .nblocks = 2, .root = 0, .complaint = NULL,
     .steps = {"copy [0,2) in:0 -> out:0\nrecv [2,4) msg:1 -> out:2", "send [2,4) in:2 -> rank 0"}},
    {.collective = TT_GATHER, .nranks = 2, .nblocks = 1, .root = 0, .complaint = "rank 0: OUT block 1 is of share 0",
     .steps = {"copy [0,1) in:0 -> out:0\ncopy [0,1) out:0 -> out:1", ""}},
    {.collective = TT_SCATTER, .nranks = 2, .nblocks = 1, .root = 0, .complaint = NULL,
     .steps = {"copy [0,1) in:0 -> out:0\nsend [1,2) in:1 -> rank 1", "recv [1,2) msg:0 -> out:1"}},
    {.collective = TT_SCATTER, .nranks = 2, .nblocks = 1, .root = 0, .complaint = "rank 1: OUT block 1 is of share 0",
     .steps = {"send [0,1) in:0 -> rank 1\ncopy [0,1) in:0 -> out:0", "recv [1,2) msg:0 -> out:1"}},
    {.collective = TT_ALL_GATHER, .nranks = 2, .nblocks = 1, .complaint = NULL,
     .steps = {"send [0,1) in:0 -> rank 1\ncopy [0,1) in:0 -> out:0\nrecv [1,2) msg:1 -> out:1",
               "send [1,2) in:1 -> rank 0\ncopy [1,2) in:1 -> out:1\nrecv [0,1) msg:0 -> out:0"}},
    {.collective = TT_REDUCE_SCATTER, .nranks = 2, .nblocks = 1, .complaint = NULL,
     .steps = {"send [1,2) in:1 -> rank 1\nreduce [0,1) in:0 + msg:1 -> out:0",
               "send [0,1) in:0 -> rank 0\nreduce [1,2) msg:0 + in:1 -> out:1"}},
    {.collective = TT_REDUCE_SCATTER, .nranks = 2, .nblocks = 1,
     .complaint = "adds a block of share 1 to one of share 0",
     .steps = {"#1\nsend [0,1) in:0 -> rank 1\nreduce [0,1) in:0 + msg:1 -> scratch:0\n"
               "copy [0,1) scratch:0 -> out:0",
               "#1\nsend [1,2) in:1 -> rank 0\nreduce [1,2) msg:0 + in:1 -> scratch:0\n"
               "copy [1,2) scratch:0 -> out:1"}},
    {.collective = TT_ALL_TO_ALL, .nranks = 2, .nblocks = 1, .complaint = NULL,
     .steps = {"copy [0,1) in:0 -> out:0\nsend [1,2) in:1 -> rank 1\nrecv [0,1) msg:1 -> out:1",
               "copy [1,2) in:1 -> out:1\nsend [0,1) in:0 -> rank 0\nrecv [1,2) msg:0 -> out:0"}},
    {.collective = TT_ALL_TO_ALL, .nranks = 2, .nblocks = 1, .complaint = "rank 0: OUT block 1 is of share 1",
     .steps = {"copy [0,1) in:0 -> out:0\nsend [1,2) in:1 -> rank 1\nrecv [1,2) msg:1 -> out:1",
               "copy [1,2) in:1 -> out:1\nsend [1,2) in:1 -> rank 0\nrecv [1,2) msg:0 -> out:0"}},
  };
  for (size_t k = 0; k < sizeof programs / sizeof programs[0]; k++) is_judged(programs[k]);
}

/* Right with equal shares (complaint NULL there), with shares of any lengths only if nothing stands in for another. */
static void is_judged_uneven(struct program program, const char *complaint)
{
  is_judged(program);
  program.is_uneven = 1;
  program.complaint = complaint;
  is_judged(program);
}

#define SHARE_0 "send [0,1) in:0 -> rank 1\ncopy [0,1) in:0 -> out:0\nrecv [1,2) msg:1 -> out:1"
#define SHARE_1 "send [1,2) in:1 -> rank 0\ncopy [1,2) in:1 -> out:1\n"

static void shares_of_any_lengths_never_stand_in_for_each_other(void **state)
{
  (void)state;
  struct program gather = {.collective = TT_ALL_GATHER, .nranks = 2, .nblocks = 1,
    .steps = {SHARE_0, SHARE_1 "recv [0,1) msg:0 -> out:0"}};
  is_judged_uneven(gather, NULL);
  gather.steps[1] = SHARE_1 "recv [1,2) msg:0 -> out:0";
  is_judged_uneven(gather, "sends blocks [0,1) to rank 1, whose step 2 takes them as [1,2)");
  gather.steps[1] = "#1\n" SHARE_1 "recv [0,1) msg:0 -> scratch:0\ncopy [1,2) scratch:0 -> out:0";
  is_judged_uneven(gather, "is about block 1, but names block 0 of another share");
  gather.steps[1] = "#1\n" SHARE_1 "recv [0,1) msg:0 -> scratch:0\ncopy [0,1) scratch:0 -> out:0";
  is_judged_uneven(gather, NULL);
  gather.collective = TT_ALL_TO_ALL;
  gather.steps[0] = "copy [0,1) in:0 -> out:0\nsend [1,2) in:1 -> rank 1\nrecv [0,1) msg:1 -> out:1";
  gather.steps[1] = "copy [1,2) in:1 -> out:1\nsend [0,1) in:0 -> rank 0\nrecv [1,2) msg:0 -> out:0";
  is_judged_uneven(gather, "unequal shares are those of all-gather and reduce-scatter");
}

#define TOGETHER "send [1,2) in:1 -> rank 0\nrecv [0,1) msg:0 -> scratch:0\n" \
                 "copy [1,2) in:1 -> scratch:1\ncopy [0,2) scratch:0 -> out:0"

static void slots_are_put_together_if_each_holds_one_share(void **state)
{
  (void)state;
  struct program gather = {.collective = TT_ALL_GATHER, .nranks = 2, .nblocks = 1,
    .steps = {SHARE_0, "#2\n" TOGETHER}};
  is_judged_uneven(gather, NULL);
  gather.steps[1] = "#2\n" TOGETHER "\ncopy [0,1) out:0 -> scratch:1";
  is_judged_uneven(gather, "reads block 1 from the span at scratch slot 0, but block 1 of the span at slot 1");
}

static void operands_stand_in_the_order_that_is_told(void **state)
{
  (void)state;
  static const int32_t order[] = {1, 0};
  struct program program = {.nranks = 2, .nblocks = 1, .order = order, .complaint = NULL,
    .steps = {"#1\n" SEND PARK "reduce [0,1) scratch:0 + in:0 -> out:0",
              "#1\nsend [0,1) in:0 -> rank 0\nrecv [0,1) msg:0 -> scratch:0\n"
              "reduce [0,1) in:0 + scratch:0 -> out:0"}};
  is_judged(program);
  program.order = NULL;
  program.complaint = "stands behind";
  is_judged(program);
}

static void steps_rounds_and_trees_are_told(void **state)
{
  (void)state;
  /* a chain 0 -> 1 -> 2 and back */
  struct program chain = {.nranks = 3, .nblocks = 2, .complaint = NULL,
    .steps = {"send [0,2) in:0 -> rank 1\nrecv [0,2) msg:1 -> out:0",
              "#2\nreduce [0,2) msg:0 + in:0 -> scratch:0\nsend [0,2) scratch:0 -> rank 2\n"
              "recv [0,2) msg:2 -> out:0\nsend [0,2) out:0 -> rank 0",
              "reduce [0,2) msg:1 + in:0 -> out:0\nsend [0,2) out:0 -> rank 1"}};
  struct tt_proof one = proof_of(chain);
  assert_int_equal(one.steps, 8);
  assert_int_equal(one.rounds, 4);
  assert_true(one.tree != 0);
  chain.nblocks = 3;
  for (int k = 0; k < 3; k++) chain.steps[k] = NULL;
  chain.steps[0] = "send [0,3) in:0 -> rank 1\nrecv [0,3) msg:1 -> out:0";
  chain.steps[1] = "reduce [0,3) msg:0 + in:0 -> out:0\nsend [0,3) out:0 -> rank 2\n"
                   "recv [0,3) msg:2 -> out:0\nsend [0,3) out:0 -> rank 0";
  chain.steps[2] = "reduce [0,3) msg:1 + in:0 -> out:0\nsend [0,3) out:0 -> rank 1";
  struct tt_proof two = proof_of(chain);
  assert_true(one.tree == two.tree); /* by whatever way, (0 + 1) + 2 */
  chain.steps[0] = "reduce [0,3) in:0 + msg:1 + msg:2 -> out:0\nsend [0,3) out:0 -> rank 1, rank 2";
  chain.steps[1] = chain.steps[2] = "send [0,3) in:0 -> rank 0\nrecv [0,3) msg:0 -> out:0";
  struct tt_proof star = proof_of(chain);
  assert_int_equal(star.rounds, 2);
  assert_true(star.tree != one.tree); /* rounded once */
  struct program halves = {.nranks = 2, .nblocks = 2, .complaint = NULL,
    .steps = {"send [0,2) in:0 -> rank 1\nrecv [0,2) msg:1 -> out:0",
              "reduce [0,2) msg:0 + in:0 -> out:0\nsend [0,2) out:0 -> rank 0"}};
  assert_true(proof_of(halves).tree != 0);
}

static void a_message_passed_on_needs_a_place(void **state)
{
  (void)state;
  is_judged((struct program){.nranks = 3, .nblocks = 1,
    .complaint = "rank 1, step 0: passes a message on without a place to keep it",
    {"send [0,1) in:0 -> rank 1", "pass [0,1) msg:0 -> rank 2", "#1\nrecv [0,1) msg:1 -> scratch:0"}});
}

/* ---- programs that are made, not written ------------------------------------------- */

/* Rank 1 sends block 0 last, on its own channel, and rank 0 takes it first. */
static void window_generate(struct tt_schedule *s, const struct tt_shape *shape, void *context)
{
  (void)context;
  for (int32_t k = 0; k < shape->nblocks; k++) {
    int32_t b = shape->rank ? (k + 1) % shape->nblocks : k, to = 0;
    struct tt_operand sources[2] = {tt_in(b), tt_message(1)};
    struct tt_step step = {.first = b, .nblocks = 1, .channel = b == 0, .nsrc = 1, .nto = 1};
    if (shape->rank == 0)
      step = (struct tt_step){.first = b, .nblocks = 1, .channel = b == 0, .nsrc = 2, .dst = tt_out(b)};
    tt_add(s, &step, sources, &to);
  }
  for (int32_t b = 0; b < shape->nblocks; b++)
    if (shape->rank)
      tt_recv(s, (struct tt_blocks){b, 1}, 0, tt_out(b));
    else
      tt_send(s, (struct tt_blocks){b, 1}, tt_out(b), 1);
}

static void the_window_is_exactly_64_steps_on_both_sides(void **state)
{
  (void)state;
  struct tt_proof proof = {.order = NULL};
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 2, .root = -1, .nblocks = 127};
  /* 63 messages pass while rank 0 waits for block 0; then rank 1 may start 64 more steps */
  assert_int_equal(tt_verify(&shape, window_generate, NULL, &proof), tuttiSuccess);
  shape.nblocks = 128;
  assert_int_equal(tt_verify(&shape, window_generate, NULL, &proof),
                   tuttiInternalError);
  assert_string_equal(proof.complaint,
                      "rank 0, step 0: waits for ever, being its oldest unfinished step, on rank 1 for a message of "
                      "its step 127, which is at its step 63");
}

static void sticky_generate(struct tt_schedule *s, const struct tt_shape *shape, void *context)
{
  (void)context;
  tt_send(s, (struct tt_blocks){0, 1}, tt_in(0), shape->rank ? 9 : 1);
}

static void an_error_of_the_builder_is_the_complaint(void **state)
{
  (void)state;
  struct tt_proof proof = {.order = NULL};
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 2, .root = -1, .nblocks = 1};
  assert_int_equal(tt_verify(&shape, sticky_generate, NULL, &proof),
                   tuttiInternalError);
  assert_non_null(strstr(proof.complaint, "rank 1: schedule of rank 1 of 2, step 0: rank 9 is none of the 2 ranks"));
  shape.nblocks = 0;
  assert_int_equal(tt_verify(&shape, sticky_generate, NULL, &proof),
                   tuttiInternalError);
}

static void no_memory_is_a_system_error_and_leaks_nothing(void **state)
{
  (void)state;
  struct tt_proof proof = {.order = NULL};
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 2, .root = -1, .nblocks = 5};
  tuttiResult_t code = tuttiSystemError;
  long n = 0;
  while (code != tuttiSuccess && n < 1000) {
    tt_alloc_fail_at(++n);
    code = tt_verify(&shape, window_generate, NULL, &proof);
    assert_true(code == tuttiSuccess || strstr(proof.complaint, "no memory"));
  }
  tt_alloc_fail_at(0);
  assert_in_range(n, 20, 999);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(right_programs_pass),
    cmocka_unit_test(an_exchange_in_place_without_scratch_waits_for_ever),
    cmocka_unit_test(two_who_both_receive_first_wait_for_ever),
    cmocka_unit_test(messages_of_one_step_come_together),
    cmocka_unit_test(both_ends_of_a_message_must_exist_and_agree),
    cmocka_unit_test(wrong_reads_are_named),
    cmocka_unit_test(a_packed_span_is_read_from_its_start),
    cmocka_unit_test(wrong_operands_are_named),
    cmocka_unit_test(the_end_is_judged),
    cmocka_unit_test(all_ranks_must_add_in_the_same_order),
    cmocka_unit_test(a_span_over_the_end_is_one_step),
    cmocka_unit_test(every_collective_is_judged_by_its_own_rule),
    cmocka_unit_test(shares_of_any_lengths_never_stand_in_for_each_other),
    cmocka_unit_test(slots_are_put_together_if_each_holds_one_share),
    cmocka_unit_test(operands_stand_in_the_order_that_is_told),
    cmocka_unit_test(steps_rounds_and_trees_are_told),
    cmocka_unit_test(a_message_passed_on_needs_a_place),
    cmocka_unit_test(the_window_is_exactly_64_steps_on_both_sides),
    cmocka_unit_test(an_error_of_the_builder_is_the_complaint),
    cmocka_unit_test(no_memory_is_a_system_error_and_leaks_nothing),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1); /* most errors here are wanted */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
