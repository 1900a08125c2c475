/* SPDX-License-Identifier: BSD-3-Clause */
/* Every algorithm of every collective on real ranks: exact results for 1 to 12 of them, any count, root and radix, in
 * place or not, whatever the order of the ranks on the wire; and nobody touches what is not his.
 *
 *   test_multi_collectives [--long] [--seed N] [--ranks N]
 *
 * Without --long, which calls a communicator gets is drawn by the seed, which is printed; of few ranks every row of
 * the table is run, on one of the transports, of many every other, of 12 every fourth; and the seed draws whether there
 * are 6, 7 or 8.
 * Labels: slow, processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "chance.h"
#include "algos/algos.h"
#include "base/base.h"
#include "meeting.h"
#include "ranks.h"
#include "trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SANITIZED 1
#else
#define IS_SANITIZED 0
#endif

#define MOST_RANKS 12
#define MANY 5 /* more ranks than that get fewer settings and calls: they are many times slower on few cores */
#define LONG_ELEMENTS 100000
#define TEXT_BYTES 1024

static int is_long, only_ranks;
static uint64_t seed;

struct job {
  const char *transport;
  int number; /* of the transport */
  struct meeting *meeting;
  uint64_t seed;
};

/* ---- communicators: one algorithm forced for each collective ---- */

struct setting {
  char algo[TEXT_BYTES];
  const char *topology; /* text of the file, "" for none */
  int radix, lanes, segment_bytes;
};

/* The n-th row of the collective, which may be counted round and round; NULL: it has none. */
static const struct tt_algo *row_of(int collective, int n)
{
  int rows = 0;
  for (int a = 0; a < tt_algo_count; a++) rows += tt_algos[a].collective == collective;
  if (!rows) return NULL;
  n %= rows;
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == collective && n-- == 0) return &tt_algos[a];
  return NULL;
}

/* Row n of every collective, as TUTTI_ALGO. */
static void rows_name(char text[TEXT_BYTES], int n)
{
  size_t used = 0;
  text[0] = 0;
  for (int c = TT_ALL_REDUCE; c < TT_PAIRS; c++)
    used += (size_t)snprintf(text + used, TEXT_BYTES - used, "%s%s:%s", used ? ";" : "", tt_kinds[c].name,
                             row_of(c, n)->name);
}

static int most_rows(void)
{
  int most = 0, rows[TT_COLLECTIVES] = {0};
  for (int a = 0; a < tt_algo_count; a++)
    if (++rows[tt_algos[a].collective] > most) most = rows[tt_algos[a].collective];
  return most;
}

#define RADIX_ROWS "recursive_multiplying;reduce:knomial;broadcast:knomial"

/* Settings beside the rows: radices, middles, places in a topology. */
static const struct setting extras[] = {
    {.algo = RADIX_ROWS, .radix = 3},
    {.algo = "knomial;reduce:knomial;broadcast:knomial", .radix = 3},
    {.algo = RADIX_ROWS, .radix = 5},
    {.algo = "knomial;reduce:knomial;broadcast:knomial", .radix = MOST_RANKS},
    {.algo = RADIX_ROWS, .radix = MOST_RANKS},
    {.algo = "hierarchical+ring", .radix = 3},
    {.algo = "hierarchical+halving_doubling", .radix = 2},
    {.algo = "hierarchical_shards+binary_blocks"},
    {.algo = "hierarchical_shards+circulant"},
};

/* 7 + 5 ranks in their order; node after node in turns; few on the first node, with NUMA nodes. */
static const char *topology_text(int nranks, int n)
{
  static char text[256];
  int last = nranks - 1, half = (nranks + 2) / 2, used;
  if (nranks < 3) return "";
  if (n == 0) snprintf(text, sizeof text, "node a ranks 0-%d\nnode b ranks %d-%d\n", half - 1, half, last);
  else if (n == 1 && nranks % 3 == 0) snprintf(text, sizeof text, "nodes 3 ranks %d each cyclic\n", nranks / 3);
  else if (n == 1) {
    used = snprintf(text, sizeof text, "node a ranks 0");
    for (int r = 2; r <= last; r += 2) used += snprintf(text + used, sizeof text - (size_t)used, ",%d", r);
    used += snprintf(text + used, sizeof text - (size_t)used, "\nnode b ranks 1");
    for (int r = 3; r <= last; r += 2) used += snprintf(text + used, sizeof text - (size_t)used, ",%d", r);
  } else
    snprintf(text, sizeof text, "node a ranks 0,%d\nnode b ranks 1-%d\nnuma b/0 ranks %d\n", last, last - 1, last - 1);
  return text;
}

/* Setting number k of nranks ranks; 0: there are no more. */
static int setting_pick(struct setting *setting, int k, int nranks)
{
  int rows = most_rows(), nextras = (int)(sizeof extras / sizeof extras[0]);
  *setting = (struct setting){.topology = ""};
  if (k < rows) rows_name(setting->algo, k);
  else if (k - rows < nextras) {
    *setting = extras[k - rows];
    setting->topology = topology_text(nranks, k % 3);
  } else if (k - rows - nextras < 3 * rows) { /* all rows again, in an order that is not that of the ranks */
    int t = k - rows - nextras;
    rows_name(setting->algo, t / 3);
    setting->topology = topology_text(nranks, t % 3);
    if (!setting->topology[0]) return -1;
  } else return 0;
  setting->lanes = 1 + k % 3;
  setting->segment_bytes = 4096;
  return 1;
}

static void number_set(const char *name, int value)
{
  char text[16];
  snprintf(text, sizeof text, "%d", value);
  setenv(name, text, 1);
}

/* Rank 0 writes the topology, which the others read after they have met. */
static int setting_apply(const struct setting *setting, const struct ranks *self)
{
  char path[64];
  setenv("TUTTI_ALGO", setting->algo, 1);
  number_set("TUTTI_RADIX", setting->radix);
  number_set("TUTTI_LANES", setting->lanes);
  number_set("TUTTI_SEGMENT_BYTES", setting->segment_bytes);
  unsetenv("TUTTI_TOPOLOGY");
  if (!setting->topology[0]) return 1;
  snprintf(path, sizeof path, "/tmp/tutti-topology-%d", (int)getppid());
  setenv("TUTTI_TOPOLOGY", path, 1);
  if (self->rank) return 1;
  FILE *file = fopen(path, "w");
  if (!file) return 0;
  fprintf(file, "tutti topology 1\n%s", setting->topology);
  return fclose(file) == 0;
}

/* ---- calls ---- */

/* One that is exact for any number of ranks. */
static int any_op(int type)
{
  return tt_type_part(type) == type ? tuttiMax : tuttiSum;
}

static int op_of(const struct trial *trial, size_t n)
{
  int op = (int)(n % TT_REDOPS);
  return trial_is_exact(trial->collective, trial->type, op, trial->nranks) ? op : any_op(trial->type);
}

static int run(struct trial *trial, tuttiComm_t comm)
{
  int premul = tt_kinds[trial->collective].reduces && trial->op == TT_PREMUL_SUM;
  if (premul && trial_redop(trial, comm) != tuttiSuccess) return 0;
  int fine = trial_run(trial, comm);
  return fine && (!premul || tuttiRedOpDestroy(trial->handle, comm) == tuttiSuccess);
}

static int every_root(struct trial trial, tuttiComm_t comm, uint64_t *chance)
{
  int step = is_long || trial.nranks <= MANY ? 1 : 4; /* other algorithms get other roots */
  trial.count = 1 + below(chance, 20);
  for (trial.root = (int)below(chance, (size_t)step); trial.root < trial.nranks; trial.root += step) {
    trial.in_place = (int)below(chance, 2);
    trial.bare = (int)below(chance, 2);
    if (!run(&trial, comm)) return 0;
  }
  return 1;
}

/* One collective, forced to one algorithm. */
static int every_count(struct trial trial, tuttiComm_t comm, uint64_t *chance)
{
  static const int types[] = {tuttiInt32, tuttiFloat16, tuttiInt32, tuttiBfloat16, tuttiFloat, tuttiDouble,
                              tuttiInt64, tuttiUint8,   tuttiInt8,  tuttiFloat8e4m3, tuttiUint32, tuttiFloat8e5m2,
                              tuttiInt16, tuttiUint16,  tuttiBool,  tuttiComplexFloat32, tuttiComplexFloat64};
  size_t n = (size_t)trial.nranks, whole = tt_kinds[trial.collective].is_shared ? n : 1;
  const size_t counts[] = {0, 1, n - 1, n, n + 1, 17, 1000, LONG_ELEMENTS / whole};
  size_t ncounts = sizeof counts / sizeof counts[0];
  for (size_t c = 0; c < ncounts; c++)
    for (int in_place = 0; in_place < 2; in_place++) {
      size_t draw = below(chance, 1 << 20);
      if (!is_long && (draw >> 8) % (trial.nranks <= MANY && c < ncounts - 1 ? 2 : 4)) continue;
      trial.count = counts[c];
      trial.type = draw % 2 ? tuttiInt32 : types[draw / 2 % (sizeof types / sizeof types[0])];
      trial.op = draw % 8 < 3 ? tuttiSum : op_of(&trial, draw / 64);
      if (!trial_is_exact(trial.collective, trial.type, trial.op, trial.nranks)) trial.op = any_op(trial.type);
      trial.in_place = in_place;
      trial.bare = (int)(draw / 16 % 2);
      trial.root = (int)(draw / 7 % n);
      trial.shift = draw % 5 ? 0 : draw / 512 % TRIAL_SHIFT;
      if (!run(&trial, comm)) return 0;
    }
  trial.type = tuttiInt32;
  trial.op = tuttiSum;
  return !tt_kinds[trial.collective].has_root || every_root(trial, comm, chance);
}

static int communicator(const struct ranks *self, int k, uint64_t *chance)
{
  const struct job *job = self->argument;
  struct setting setting;
  tuttiComm_t comm;
  tuttiUniqueId id;
  setting_pick(&setting, k, self->nranks);
  RANKS_CHECK(setting_apply(&setting, self) && meeting_id(job->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
  for (int c = TT_ALL_REDUCE; c < TT_PAIRS; c++) {
    struct trial trial = {.nranks = self->nranks, .rank = self->rank, .collective = c};
    int only_all_reduce = !strchr(setting.algo, ':'); /* the others have their default there */
    if (only_all_reduce && c != TT_ALL_REDUCE) continue;
    if (every_count(trial, comm, chance)) continue;
    fprintf(stderr, "%s with TUTTI_ALGO=%s radix %d lanes %d over %s, topology:\n%s\n", tt_kinds[c].name,
            setting.algo, setting.radix, setting.lanes, job->transport, setting.topology);
    return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  if (self->rank == 0 && setting.topology[0]) unlink(getenv("TUTTI_TOPOLOGY"));
  return 0;
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  uint64_t chance = job->seed;
  struct setting setting;
  for (int k = 0, more; (more = setting_pick(&setting, k, self->nranks)) != 0; k++) {
    int is_extra = k >= most_rows(), is_many = self->nranks > MANY;
    unsigned each = is_many ? self->nranks == MOST_RANKS ? 4u : 2u : 1u;
    int kept = !below(&chance, IS_SANITIZED ? 12u : (is_extra ? 4u : 1u) * each);
    int has_half = ranks_transports(1) && !is_extra && !is_many && !IS_SANITIZED;
    int is_elsewhere = has_half && (k + self->nranks + job->number) % 2;
    if (more < 0 || (!is_long && (!kept || is_elsewhere))) continue;
    uint64_t calls = chance;
    if (communicator(self, k, &calls)) return 1;
  }
  return 0;
}

static int is_left_out(int nranks)
{
  if (only_ranks) return nranks != only_ranks;
  return !is_long && nranks > MANY && nranks != MOST_RANKS && nranks != 6 + (int)(seed / 1000 % 3);
}

static void run_all(int number)
{
  const char *transport = ranks_transports(number);
  setenv("TUTTI_TRANSPORTS", transport, 1);
  for (int nranks = 1; nranks <= MOST_RANKS; nranks++) {
    if (is_left_out(nranks)) continue;
    struct job job = {transport, number, meeting_make(nranks), seed + (uint64_t)nranks};
    assert_non_null(job.meeting);
    int bad = ranks_run_processes(nranks, body, &job, is_long ? 1200 : 120);
    if (bad) fprintf(stderr, "seed %llu failed\n", (unsigned long long)seed);
    assert_int_equal(bad, 0);
    meeting_free(job.meeting);
  }
}

static void every_algorithm_of_every_collective_is_exact(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) run_all(t);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_algorithm_of_every_collective_is_exact),
  };
  seed = (uint64_t)time(NULL) * 1000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) is_long = 1;
    if (strcmp(argv[i], "--ranks") == 0 && i + 1 < argc) only_ranks = atoi(argv[++i]);
    if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
  }
  printf("seed %llu\n", (unsigned long long)seed);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
