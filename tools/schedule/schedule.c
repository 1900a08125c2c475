/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/picture_private.h"
#include "schedule/request_private.h"
#include "schedule/text_private.h"

#include <string.h>

const char *tt_algorithm_name(const char *collective, int index)
{
  int kind = tt_kind_find(collective);
  for (int a = 0; kind != TT_NO_COLLECTIVE && a < tt_algo_count; a++)
    if (tt_algos[a].collective == kind && index-- == 0) return tt_algos[a].name;
  return NULL;
}

/* ---- print ----------------------------------------------------------------------------- */

/* Elements of blocks [first, first + n) of all shares; a span that goes over the end is as long as one behind it. */
static int64_t elements_of(const struct tt_request *request, int32_t nblocks, int32_t first, int32_t n)
{
  size_t sum = 0;
  while (n > 0) {
    int32_t block = first % nblocks, piece = n < nblocks - block ? n : nblocks - block;
    sum += tt_blocks_count(request->count, nblocks, block, piece);
    first += piece;
    n -= piece;
  }
  return (int64_t)sum;
}

static void claims_print(const struct tt_request *request, const struct tt_schedule *schedule, FILE *out)
{
  int64_t messages = 0, sent = 0, combined = 0;
  int32_t nblocks = schedule->shape.nblocks;
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    int64_t elements = elements_of(request, nblocks, step->first, step->nblocks);
    messages += elements ? step->nto : 0;
    sent += elements * step->nto;
    combined += elements * (step->nsrc - 1);
  }
  int64_t slot = (int64_t)((request->count + (size_t)nblocks - 1) / (size_t)nblocks);
  fprintf(out, "# rank %d sends %lld %s, %lld %s; combines %lld; scratch for %lld\n", (int)schedule->shape.rank,
          (long long)messages, messages == 1 ? "message" : "messages", (long long)sent,
          sent == 1 ? "element" : "elements", (long long)combined, (long long)(schedule->nslots * slot));
}

static tuttiResult_t rank_print(struct tt_request *request, int32_t rank, FILE *out)
{
  struct tt_schedule schedule;
  struct tt_shape shape = request->shape;
  shape.rank = rank;
  tt_schedule_init(&schedule, &shape);
  tt_request_generate_rank(&schedule, &shape, request);
  tuttiResult_t code = schedule.error;
  if (!code) claims_print(request, &schedule, out);
  if (!code) code = tt_schedule_print(&schedule, out);
  tt_schedule_destroy(&schedule);
  return code;
}

/* "binary_blocks all_reduce: 6 ranks, 1000 elements in 4 blocks, 4 rounds" */
static void head_text(const struct tt_request *request, char *text, size_t size)
{
  struct tt_cost cost;
  const struct tt_shape *shape = &request->shape;
  int32_t blocks = shape->nblocks * (request->nchannels ? request->nchannels : 1);
  request->algo->claim(shape, &cost);
  snprintf(text, size, "%d %s, %zu %s in %d %s%s, %lld %s", (int)shape->nranks, shape->nranks == 1 ? "rank" : "ranks",
           request->count, request->count == 1 ? "element" : "elements", (int)blocks, blocks == 1 ? "block" : "blocks",
           tt_kinds[shape->collective].is_shared ? " a share" : "", (long long)cost.rounds,
           cost.rounds == 1 ? "round" : "rounds");
}

tuttiResult_t tt_schedules_print(const struct tt_schedule_request *request, int rank, FILE *out)
{
  struct tt_request made;
  char head[128];
  tuttiResult_t code = tt_request_make(&made, request);
  if (code) return code;
  if (rank < -1 || rank >= made.shape.nranks)
    code = tt_fail(tuttiInvalidArgument, "rank is %d: give one from 0 to %d, or -1 for all", rank,
                   (int)made.shape.nranks - 1);
  if (!code) {
    head_text(&made, head, sizeof head);
    fprintf(out, "# %s %s: %s\n", made.algo->name, tt_kinds[made.shape.collective].name, head);
  }
  for (int32_t r = rank < 0 ? 0 : rank; !code && r < (rank < 0 ? made.shape.nranks : rank + 1); r++)
    code = rank_print(&made, r, out);
  tt_request_destroy(&made);
  return code;
}

/* ---- draw and simulate ------------------------------------------------------------------- */

#define DRAWN_RANKS 1024

tuttiResult_t tt_schedules_data(const struct tt_schedule_request *request, FILE *out)
{
  struct tt_request made;
  char head[128], title[128];
  tuttiResult_t code = tt_request_make(&made, request);
  if (code) return code;
  if (made.shape.nranks > DRAWN_RANKS) {
    code = tt_fail(tuttiInvalidUsage, "%d ranks are too many for a picture: draw at most %d, or print the steps of one "
                   "rank (--rank)", (int)made.shape.nranks, DRAWN_RANKS);
    tt_request_destroy(&made);
    return code;
  }
  head_text(&made, head, sizeof head);
  int32_t members = made.algo->folded ? made.algo->folded(&made.shape) : made.shape.nranks;
  if (members < made.shape.nranks)
    snprintf(head + strlen(head), sizeof head - strlen(head), ", folded to %d ranks", (int)members);
  snprintf(title, sizeof title, "%s %s", made.algo->name, tt_kinds[made.shape.collective].name);
  const struct tt_sim_play play = {.shape = made.shape, .generate = tt_request_generate_rank, .context = &made,
                                   .is_whole = made.npasses > 0 || made.order, .count = made.count,
                                   .element_bytes = made.element_bytes};
  struct tt_sim_caption caption = {.title = title, .note = head};
  if (made.has_topology) caption.group = made.topology.node;
  else if (made.algo->has_middle && made.shape.groups) caption.group = made.shape.groups->group[0];
  code = tt_picture_print(&play, &caption, out);
  tt_request_destroy(&made);
  return code;
}

static double larger(double a, double b)
{
  return a > b ? a : b;
}

/* The cheapest of the kinds of links between ranks that stand next to each other, which are the nearest there are. */
static void cheapest_find(const struct tt_sim_play *play, double *alpha_us, double *beta_us_per_mib)
{
  const struct tt_curve_part *part = &play->prices->link[TT_LINK_NET].part[0];
  *alpha_us = part->alpha_us;
  *beta_us_per_mib = part->beta_us_per_mib;
  for (int32_t p = 0; play->topology && p + 1 < play->shape.nranks; p++) {
    int32_t a = play->order ? play->order[p] : p, b = play->order ? play->order[p + 1] : p + 1;
    part = &play->prices->link[tt_topology_kind(play->topology, a, b)].part[0];
    if (part->alpha_us < *alpha_us) *alpha_us = part->alpha_us;
    if (part->beta_us_per_mib < *beta_us_per_mib) *beta_us_per_mib = part->beta_us_per_mib;
  }
}

/* Elements that pass the port of the rank with the shortest share, or of one with the longest. */
static double most_taken(const struct tt_sim_play *play)
{
  size_t total = 0, shortest = play->counts[0], longest = 0;
  for (int32_t rank = 0; rank < play->shape.nranks; rank++) {
    size_t count = play->counts[rank];
    total += count;
    if (count < shortest) shortest = count;
    if (count > longest) longest = count;
  }
  if (play->shape.nranks == 1) return 0;
  return larger((double)(total - shortest), (double)longest);
}

static double bound_find(const struct tt_sim_play *play)
{
  double alpha_us, beta_us_per_mib, rounds = 0, shares = 1, nranks = play->shape.nranks;
  const struct tt_kind *kind = &tt_kinds[play->shape.collective];
  cheapest_find(play, &alpha_us, &beta_us_per_mib);
  for (double p = 1; p < nranks; p *= 2) rounds++;
  if (kind->is_shared) shares = nranks - 1;
  else if (kind->reduces && kind->out == TT_COVER_ALL) shares = 2 * (nranks - 1) / nranks;
  if (nranks == 1) shares = 0;
  double count = play->counts ? most_taken(play) : shares * (double)play->count;
  return larger(rounds * alpha_us, count * (double)play->element_bytes / 1048576 * beta_us_per_mib);
}

static void progress_pass(void *context, const struct tt_sim_progress *progress)
{
  const struct tt_simulation *how = context;
  how->progress(how->context, progress->steps, progress->total, progress->time_us);
}

static void making_pass(void *context, int32_t made, int64_t steps)
{
  const struct tt_simulation *how = context;
  how->making(how->context, (int)made, steps);
}

static tuttiResult_t how_check(const struct tt_simulation *how)
{
  const double prices[] = {how->alpha_us, how->beta_us_per_mib, how->gamma_us_per_mib};
  for (int k = 0; how->uniform && k < 3; k++)
    if (!(prices[k] >= 0 && prices[k] <= 1e12))
      return tt_fail(tuttiInvalidArgument, "prices are alpha %g, beta %g, gamma %g: each must be from 0 to 1e12",
                     prices[0], prices[1], prices[2]);
  return tuttiSuccess;
}

static tuttiResult_t play_run(struct tt_request *made, const struct tt_simulation *how, struct tt_simulated *result)
{
  struct tt_link_prices prices = made->topology.prices;
  struct tt_sim_result got;
  for (int k = TT_LINK_SELF + 1; how->uniform && k < TT_LINK_KINDS; k++)
    prices.link[k] = tt_curve_line(how->alpha_us, how->beta_us_per_mib);
  if (how->uniform) {
    prices.link[TT_LINK_SELF] = tt_curve_line(0, 0);
    prices.gamma_us_per_mib = how->gamma_us_per_mib;
  }
  if (!how->uniform && how->link_gbits > 0) prices.link[TT_LINK_NET] = tt_curve_link(how->link_gbits, how->link_us);
  struct tt_sim_play play = {.shape = made->shape, .generate = tt_request_generate, .context = made,
                             .is_whole = made->npasses > 0, .count = made->count,
                             .element_bytes = made->element_bytes, .block_bytes = how->block_bytes,
                             .lanes = how->lanes, .prices = &prices, .order = made->order,
                             .counts = made->counts};
  if (made->has_topology) play.topology = &made->topology;
  play.most_steps = how->most_steps;
  if (how->progress) play.watcher.progress = progress_pass;
  if (how->making) play.watcher.making = making_pass;
  play.watcher.context = (void *)(uintptr_t)how;
  tuttiResult_t code = tt_simulate(&play, &got);
  if (code) return code;
  *result = (struct tt_simulated){.time_us = got.time_us, .first_us = got.first_us, .bound_us = bound_find(&play),
                               .busiest_us = got.busiest_us, .steps = got.steps, .messages = got.messages,
                               .bytes = got.bytes, .reduced_bytes = got.reduced,
                               .link_gbits = tt_curve_gbits(&prices.link[TT_LINK_NET]),
                               .link_us = prices.link[TT_LINK_NET].part[0].alpha_us};
  result->busiest_rank = made->order ? made->order[got.busiest_rank] : got.busiest_rank;
  return code;
}

tuttiResult_t tt_schedules_simulate(const struct tt_schedule_request *request, const struct tt_simulation *how,
                                    struct tt_simulated *result)
{
  struct tt_request made;
  tuttiResult_t code = how_check(how);
  if (!code) code = tt_request_make(&made, request);
  if (code) return code;
  code = play_run(&made, how, result);
  tt_request_destroy(&made);
  return code;
}
