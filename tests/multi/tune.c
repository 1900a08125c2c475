/* SPDX-License-Identifier: BSD-3-Clause */
/* tt_measure: what is in the profile afterwards, that the communicator is as before, and that no failure makes it
 * hang.
 * Labels: slow, plain. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "comm/private.h"
#include "ranks.h"
#include "measure/measure.h"
#include "profiles/profiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 120
#define SECONDS 0.3 /* as short as can be: nothing here looks at how right the times are */
#define SIZES 8     /* of all_reduce */

/* ---- what a profile must say ---- */

/* As a user would have it: written, and read again, which refuses what is broken or there twice. */
static int profile_read(const struct ranks *self, const struct tt_profile *profile, struct tt_profile *read)
{
  FILE *file = tmpfile();
  RANKS_CHECK(file && tt_profile_print(profile, file) == tuttiSuccess);
  rewind(file);
  RANKS_CHECK(tt_profile_parse(read, file, "tuned") == tuttiSuccess);
  fclose(file);
  return 0;
}

/* Lines of a flow reach from 0 to the longest message, without gaps; 0: there is none. */
static int lines_of(const struct ranks *self, const struct tt_profile *read, const struct tt_flow *flow, int *n)
{
  uint64_t from = 0;
  *n = 0;
  for (int32_t i = 0; i < read->nlinks; i++) {
    const struct tt_profile_link *link = &read->links[i];
    if (!tt_flow_same(&link->flow, flow)) continue;
    RANKS_CHECK(link->from == from && link->overhead_us >= 0 && link->points > 0);
    RANKS_CHECK(link->alpha_us > 0 || link->beta_us_per_mib > 0);
    from = link->to;
    ++*n;
  }
  RANKS_CHECK(!*n || from == UINT64_MAX);
  return 0;
}

static int points_of(const struct ranks *self, const struct tt_profile *read, const struct tt_flow *flow, int *n)
{
  *n = 0;
  for (int32_t i = 0; i < read->npoints; i++) {
    const struct tt_profile_point *point = &read->points[i];
    if (!tt_flow_same(&point->flow, flow)) continue;
    RANKS_CHECK(point->us > 0 && point->low_us > 0 && point->low_us <= point->us && point->us <= point->high_us);
    ++*n;
  }
  return 0;
}

/* Copies go with the kernels. */
static int copies_check(const struct ranks *self, const struct tt_profile *read)
{
  const struct tt_flow flow = {.kind = TT_LINK_SELF, .transport = "self", .flows = 1, .ways = 2};
  int lines, points;
  if (lines_of(self, read, &flow, &lines) || points_of(self, read, &flow, &points)) return 1;
  RANKS_CHECK(lines > 0 && points == 22);
  return 0;
}

/* Each kind of link between any two ranks was measured, by one pair; `most` is the largest number of pairs of it. */
static int kind_check(const struct ranks *self, tuttiComm_t comm, const struct tt_profile *read, int kind, int most)
{
  for (int ways = 1; ways <= 2; ways++)
    for (int flows = 1; flows <= self->nranks; flows++) {
      struct tt_flow flow = {.kind = (enum tt_link_kind)kind, .flows = flows, .ways = ways};
      int lines, points, wanted = flows <= most && (!(flows & (flows - 1)) || flows == most);
      strcpy(flow.transport, comm->facts.settings.transports);
      if (lines_of(self, read, &flow, &lines) || points_of(self, read, &flow, &points)) return 1;
      RANKS_CHECK((lines > 0) == wanted);
      RANKS_CHECK((points >= 4) == wanted && (points > 0) == wanted);
    }
  return 0;
}

static int reduces_check(const struct ranks *self, const struct tt_profile *read)
{
  static const int subjects[][2] = {{tuttiFloat32, tuttiSum},  {tuttiFloat64, tuttiSum}, {tuttiFloat16, tuttiSum},
                                    {tuttiBfloat16, tuttiSum}, {tuttiInt32, tuttiSum},   {tuttiFloat32, tuttiMax}};
  for (int s = 0; s < 6; s++)
    for (int nsrc = 2; nsrc <= 4; nsrc += 2) {
      int levels = 0;
      for (int32_t i = 0; i < read->nreduces; i++) {
        const struct tt_profile_reduce *reduce = &read->reduces[i];
        if (reduce->type != subjects[s][0] || reduce->op != subjects[s][1] || reduce->nsrc != nsrc) continue;
        RANKS_CHECK(reduce->gamma_us_per_mib > 0 && reduce->bytes > 0);
        levels |= 1 << reduce->level;
      }
      RANKS_CHECK(levels >> TT_LEVEL_L1 & 1 && levels >> TT_LEVEL_MEMORY & 1);
    }
  return copies_check(self, read);
}

static int is_legal(const struct ranks *self, tuttiComm_t comm, int a)
{
  struct tt_shape shape = {.nranks = self->nranks,
                           .root = tt_kinds[tt_algos[a].collective].has_root ? 0 : -1,
                           .middle = -1,
                           .groups = &comm->parts.arrangement.groups};
  tt_algo_shape(&tt_algos[a], &shape);
  return !tt_algos[a].illegal || !tt_algos[a].illegal(&shape);
}

/* Every legal algorithm in malloc's memory and, within the host, those of which ranks agree on the kind in that of
 * tuttiMemAlloc, too; all at the same sizes, as there was time for; no other one, and what they ran on; of
 * all-reduce other radices and blocks, too. */
static int anchors_check(const struct ranks *self, tuttiComm_t comm, const struct tt_profile *read)
{
  const uint32_t block_bytes = comm->parts.transports[1]->ops->block_bytes;
  int nradices = 0, sizes[TT_MEMORIES][TT_COLLECTIVES] = {{0}};
  int has_kinds = comm->parts.transports[1]->ops->is_same_host;
  for (int k = 0; k < TT_MEMORIES * tt_algo_count; k++) {
    int n = 0, memory = k / tt_algo_count, a = k % tt_algo_count, collective = tt_algos[a].collective;
    for (int32_t i = 0; i < read->nanchors; i++) {
      const struct tt_profile_anchor *anchor = &read->anchors[i];
      if (anchor->collective != collective || strcmp(anchor->algo, tt_algos[a].name)) continue;
      if ((int)anchor->memory != memory) continue;
      RANKS_CHECK(anchor->us > 0 && anchor->nranks == self->nranks && anchor->nnodes == comm->parts.topology.nnodes);
      RANKS_CHECK(anchor->cores == tt_host_cores() && !strcmp(anchor->transport, comm->facts.settings.transports));
      int is_other_block = collective == TT_ALL_REDUCE && anchor->block_bytes != block_bytes;
      nradices += anchor->radix != 0;
      n += !anchor->radix && !is_other_block;
      RANKS_CHECK(!is_other_block || anchor->bytes >= 256 << 10);
    }
    int is_short = collective == TT_ALL_GATHER || collective == TT_REDUCE_SCATTER || collective == TT_BROADCAST;
    if (!is_short && collective != TT_ALL_REDUCE) continue;
    int is_measured = memory == TT_MEMORY_MALLOC || (has_kinds && tt_arms_row(collective) >= 0);
    if (is_legal(self, comm, a) && !sizes[memory][collective]) sizes[memory][collective] = n;
    RANKS_CHECK(n == (is_legal(self, comm, a) ? sizes[memory][collective] : 0));
    RANKS_CHECK(n <= (is_short ? 3 : SIZES) && (sizes[memory][collective] > 0) == is_measured);
  }
  RANKS_CHECK((nradices > 0) == (self->nranks > 3));
  return 0;
}

/* Pairs of ranks without a rank twice, all of this kind, greedily: here all ranks are alike. */
static int kinds_check(const struct ranks *self, tuttiComm_t comm, const struct tt_profile *read)
{
  int kind = (int)tt_topology_kind(&comm->parts.topology, 0, 1);
  for (int k = TT_LINK_CACHE; k < TT_LINK_KINDS; k++)
    if (kind_check(self, comm, read, k, k == kind ? self->nranks / 2 : 0)) return 1;
  return 0;
}

/* ---- all of it ---- */

static int sum_check(const struct ranks *self, tuttiComm_t comm)
{
  int sum[3] = {self->rank, 1, -self->rank};
  RANKS_CHECK(tuttiAllReduce(sum, sum, 3, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess);
  int wanted = self->nranks * (self->nranks - 1) / 2;
  RANKS_CHECK(sum[0] == wanted && sum[1] == self->nranks && sum[2] == -wanted);
  return 0;
}

static int whole_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  struct tt_profile read;
  const struct tt_measure_options options = {.seconds = SECONDS, .command = "a \"test\"\n# of it"};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  struct tt_table before = comm->calls.table;
  for (int k = 0; k < (self->nranks == 3 ? 2 : 1); k++) { /* the second time it takes the place of the first */
    RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
    RANKS_CHECK(memcmp(&before, &comm->calls.table, sizeof before) == 0);
    if (sum_check(self, comm)) return 1;
    if (self->rank) continue;
    if (profile_read(self, &profile, &read)) return 1;
    if (kinds_check(self, comm, &read) || reduces_check(self, &read) || anchors_check(self, comm, &read)) return 1;
    RANKS_CHECK(read.cpu[0] && read.host[0] && read.cores > 0);
    RANKS_CHECK(read.nmeasured > 0 && strstr(read.measured[0].command, "test"));
    tt_profile_destroy(&read);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void run_on_all_transports(int nranks, ranks_body body)
{
  static const char *const transports[] = {"shm", "tcp"};
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", transports[t], 1);
    assert_int_equal(ranks_run_processes(nranks, body, NULL, LIMIT_S), 0);
  }
}

static void a_profile_has_every_flow_kernel_and_algorithm(void **state)
{
  (void)state;
  run_on_all_transports(2, whole_body);
  run_on_all_transports(3, whole_body);
  run_on_all_transports(5, whole_body);
}

/* ---- what is kept meanwhile, and what is left out ---- */

struct kept {
  const struct ranks *self;
  int n, failed, lacks_links, lacks_algorithms;
};

/* All that it gets could be the end: it is a profile, and says what is missing. */
static void kept_look(void *context, const struct tt_profile *profile)
{
  struct kept *kept = context;
  struct tt_profile read;
  kept->n++;
  kept->failed |= profile_read(kept->self, profile, &read);
  if (kept->failed) return;
  for (int32_t i = 0; i < read.nmissing; i++) {
    kept->lacks_links += !strcmp(read.missing[i].from, "links");
    kept->lacks_algorithms += !strncmp(read.missing[i].from, "algorithms", 10);
  }
  kept->failed |= read.nmissing > 1 || (read.nanchors && !read.nlinks);
  tt_profile_destroy(&read);
}

static int kept_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  struct kept kept = {.self = self};
  const struct tt_measure_options options = {.seconds = SECONDS, .keep = kept_look, .context = &kept};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
  RANKS_CHECK(!kept.failed && (kept.n > 0) == (self->rank == 0) && !profile.nmissing);
  RANKS_CHECK(self->rank || (kept.lacks_links > 0 && kept.lacks_algorithms > 0));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void each_part_is_kept_with_what_is_missing(void **state)
{
  (void)state;
  run_on_all_transports(3, kept_body);
}

/* No time at all: nothing but when, and that all is missing; the next call lacks nothing. */
static int limit_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  struct tt_measure_options options = {.seconds = SECONDS, .limit_s = 1e-6};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
  RANKS_CHECK(self->rank || (profile.nmeasured == 1 && profile.nmissing == 1));
  RANKS_CHECK(!profile.nlinks && !profile.nreduces && !profile.nanchors);
  if (self->rank == 0) {
    const struct tt_profile_missing *missing = profile.missing;
    RANKS_CHECK(!strcmp(missing->from, "reduce kernels") && missing->nranks == self->nranks && missing->nnodes == 1);
    RANKS_CHECK(!strcmp(missing->transport, comm->facts.settings.transports));
  }
  options = (struct tt_measure_options){.seconds = SECONDS, .no_kernels = 1, .no_anchors = 1, .continues = 1};
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
  RANKS_CHECK(self->rank || (!profile.nmissing && profile.nlinks && profile.nmeasured == 1));
  if (sum_check(self, comm)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void nothing_is_begun_behind_the_limit(void **state)
{
  (void)state;
  run_on_all_transports(3, limit_body);
}

/* ---- kinds of links ---- */

/* Two hosts of four: 0 and 1 share a cache, 2 the NUMA node with them, 3 is in the other one; 4 to 7 alike. */
static const char *const topology_text = "tutti topology 1\n"
                                         "node a ranks 0-3\n"
                                         "node b ranks 4-7\n"
                                         "numa a/0 ranks 0-2\n"
                                         "numa a/1 ranks 3\n"
                                         "numa b/0 ranks 4-6\n"
                                         "numa b/1 ranks 7\n"
                                         "cache a/0/x ranks 0-1\n"
                                         "cache b/0/x ranks 4-5\n";

static int kinds_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  struct tt_profile read;
  const struct tt_measure_options options = {.seconds = SECONDS, .no_kernels = 1, .no_anchors = 1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
  if (self->rank == 0) {
    static const int most[TT_LINK_KINDS] = {[TT_LINK_CACHE] = 1, [TT_LINK_NUMA] = 1, [TT_LINK_NODE] = 1,
                                            [TT_LINK_NET] = 4};
    if (profile_read(self, &profile, &read)) return 1;
    RANKS_CHECK(!read.nreduces && !read.nanchors);
    for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++)
      if (kind_check(self, comm, &read, kind, most[kind])) return 1;
    tt_profile_destroy(&read);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void each_kind_of_link_is_measured_by_itself(void **state)
{
  (void)state;
  char path[] = "/tmp/tutti-tune-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, topology_text, strlen(topology_text)), (ssize_t)strlen(topology_text));
  close(fd);
  setenv("TUTTI_TOPOLOGY", path, 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(8, kinds_body, NULL, LIMIT_S), 0);
  unsetenv("TUTTI_TOPOLOGY");
  unlink(path);
}

/* ---- one rank, different options, failures ---- */

static int alone_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  struct tt_profile read;
  const struct tt_measure_options options = {.seconds = SECONDS};
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess);
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiSuccess);
  if (profile_read(self, &profile, &read)) return 1;
  RANKS_CHECK(!read.nanchors);
  for (int32_t i = 0; i < read.nlinks; i++) RANKS_CHECK(read.links[i].flow.kind == TT_LINK_SELF);
  if (reduces_check(self, &read)) return 1;
  tt_profile_destroy(&read);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void one_rank_measures_its_kernels(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, alone_body, NULL, LIMIT_S), 0);
}

static int unlike_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  const struct tt_measure_options options = {.seconds = SECONDS, .no_between = self->rank == 2};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiInvalidUsage);
  if (sum_check(self, comm)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  tt_profile_destroy(&profile);
  return 0;
}

static void different_options_are_an_error_that_costs_nothing_else(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(3, unlike_body, NULL, LIMIT_S), 0);
  unsetenv("TUTTI_DEBUG");
}

/* Shared by the processes of a trial. */
struct death {
  int victim;
  const char *part;    /* of which rank 0 tells when the victim is to die */
  _Atomic int is_time;
};

static struct death *death; /* of this process */

static void look(int signal)
{
  if (atomic_load(&death->is_time)) kill(getpid(), SIGKILL);
  (void)signal;
}

static void tell(void *context, double done, const char *what)
{
  (void)done;
  if (strncmp(what, death->part, strlen(death->part)) == 0) atomic_store(&death->is_time, 1);
  (void)context;
}

static int death_body(const struct ranks *self)
{
  tuttiComm_t comm;
  struct tt_profile profile = {.nlinks = 0};
  const struct tt_measure_options options = {.seconds = 2, .progress = tell};
  death = self->argument;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == death->victim) {
    const struct itimerval timer = {{0, 20000}, {0, 20000}};
    signal(SIGALRM, look);
    setitimer(ITIMER_REAL, &timer, NULL);
  }
  RANKS_CHECK(tt_measure(comm, &options, &profile) == tuttiRemoteError);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  tt_profile_destroy(&profile);
  return 0;
}

static void a_death_is_an_error_for_all_others_in_every_part(void **state)
{
  (void)state;
  static const struct death deaths[] = {
      {1, "reduce kernels", 0}, {0, "reduce kernels", 0}, {2, "links", 0}, {1, "links", 0}, {1, "algorithms", 0}};
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  for (size_t d = 0; d < sizeof deaths / sizeof *deaths; d++) {
    int pids[3];
    struct death *trial = ranks_shared(sizeof *trial);
    memcpy(trial, &deaths[d], sizeof *trial);
    assert_int_equal(ranks_start(3, death_body, trial, pids), 0);
    for (int r = 0; r < 3; r++) assert_int_equal(ranks_wait(pids[r], 30), r == trial->victim ? 128 + SIGKILL : 0);
  }
  unsetenv("TUTTI_DEBUG");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_profile_has_every_flow_kernel_and_algorithm),
      cmocka_unit_test(each_part_is_kept_with_what_is_missing),
      cmocka_unit_test(nothing_is_begun_behind_the_limit),
      cmocka_unit_test(each_kind_of_link_is_measured_by_itself),
      cmocka_unit_test(one_rank_measures_its_kernels),
      cmocka_unit_test(different_options_are_an_error_that_costs_nothing_else),
      cmocka_unit_test(a_death_is_an_error_for_all_others_in_every_part),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
