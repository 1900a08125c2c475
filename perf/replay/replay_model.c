/* SPDX-License-Identifier: BSD-3-Clause */
/* The steps of train_replay in the planner's model (model.h), for the script perf/train_replay, which reads
 *
 *   model ROUND POLICY US      the mean of a step, by that policy; the policy "bound" is what none can beat
 *
 * A message of m bytes takes A_US + B_US_PER_BYTE m. With --gap it holds the links for so much of A_US only, and up to
 * 8 messages are under way at once, as `tutti plan --help` has it.
 *
 * usage: replay_model [--jitter PERCENT] [--slow RANK:FACTOR] [--lengths FILE] [--seed N] [--gap US]
 *                     TABLE RANKS A_US B_US_PER_BYTE ROUNDS STEPS POLICY... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"

#define CHANNELS 8
#define RANKS_MOST 65536
#define STEPS_MOST 100000

struct asked {
  struct variation variation;
  struct network network;
  struct tt_message_cost cost;
  int nranks, rounds, steps;
  int npolicies;
  char **policies;
};

static int usage(void)
{
  fprintf(stderr, "usage: replay_model " VARIATION_USAGE " [--gap US]\n"
          "                    TABLE RANKS A_US B_US_PER_BYTE ROUNDS STEPS POLICY...\n"
          "The script perf/train_replay starts it.\n");
  return 0;
}

static int arguments_take(struct asked *asked, int argc, char **argv)
{
  static const struct option options[] = {{"gap", required_argument, NULL, 'g'}, VARIATION_OPTIONS, {0}};
  const char *gap = NULL;
  int option;
  while ((option = getopt_long(argc, argv, "+", options, NULL)) != -1) {
    if (option == '?' || variation_take(&asked->variation, option, optarg) == 0) return usage();
    if (option == 'g') gap = optarg;
  }
  if (argc - optind < 7) return usage();
  char **words = argv + optind;
  double a_us = atof(words[2]), gap_us = gap ? atof(gap) : a_us;
  asked->nranks = atoi(words[1]);
  asked->cost = tt_message_cost_line(a_us, atof(words[3]));
  asked->rounds = atoi(words[4]);
  asked->steps = atoi(words[5]);
  asked->policies = words + 6;
  asked->npolicies = argc - optind - 6;
  if (asked->nranks < 1 || asked->nranks > RANKS_MOST || asked->rounds < 1 || asked->steps < 1 ||
      asked->steps > STEPS_MOST || !(a_us >= 0) || !(gap_us >= 0) || !(asked->cost.byte_us >= 0))
    return usage();
  if (gap_us < a_us) {
    asked->cost.free = 1 - gap_us / a_us;
    asked->cost.channels = CHANNELS;
  }
  return network_create(&asked->network, words[0], 0);
}

static tuttiResult_t played_print(const struct asked *asked, struct model *model, const char *name)
{
  struct player player = {.is_bound = strcmp(name, "bound") == 0};
  double us = 0;
  tuttiResult_t result = player.is_bound ? tuttiSuccess : tt_policy_parse(&player.policy, name);
  for (int round = 1; round <= asked->rounds && result == tuttiSuccess; round++) {
    result = model_plan(model, &player, round);
    if (result == tuttiSuccess) result = model_play(model, &player, round, asked->steps, &us);
    if (result == tuttiSuccess) printf("model %d %s %.3f\n", round, name, us);
  }
  tt_fusion_plan_destroy(&player.plan);
  return result;
}

int main(int argc, char **argv)
{
  struct asked asked = {.nranks = 0};
  struct model model = {.nranks = 0};
  if (!arguments_take(&asked, argc, argv)) return 2;
  tuttiResult_t result = model_make(&model, &asked.network, &asked.variation, &asked.cost, asked.nranks);
  for (int p = 0; p < asked.npolicies && result == tuttiSuccess; p++)
    result = played_print(&asked, &model, asked.policies[p]);
  if (result != tuttiSuccess) fprintf(stderr, "replay_model: %s\n", tt_last_sentence());
  model_destroy(&model);
  network_destroy(&asked.network);
  variation_free(&asked.variation);
  return result != tuttiSuccess;
}
