/* SPDX-License-Identifier: BSD-3-Clause */
/* Without a profile one pair of ranks is measured when a communicator is created, once for a host; all ranks agree what
 * that means, whatever their caches hold, and nobody waits for ever.
 * Labels: plain. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "meeting.h"
#include "ranks.h"
#include "tuner/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define TRIES 100 /* others may use the cores: then it does not settle, and is not kept */

/* A folder of its own, with room for two caches and the logs of two ranks. */
struct scene {
  char folder[64], log[2][96];
  char cache[2][96]; /* TUTTI_CACHE of each rank */
  const char *profile;
  int ends; /* rank 1 does, while it measures */
  int differs; /* the topology file of rank 1 does */
};

static struct scene *scene;

static void scene_make(void)
{
  char folder[] = "/tmp/tutti-test-XXXXXX";
  memset(scene, 0, sizeof *scene);
  assert_non_null(mkdtemp(folder));
  strcpy(scene->folder, folder);
  for (int r = 0; r < 2; r++) {
    snprintf(scene->log[r], sizeof scene->log[r], "%s/log.%d", folder, r);
    snprintf(scene->cache[r], sizeof scene->cache[r], "%s/cache", folder);
  }
}

static void scene_free(void)
{
  char command[96];
  snprintf(command, sizeof command, "rm -r %s", scene->folder);
  assert_int_equal(system(command), 0);
}

static struct tt_settings settings_of(int rank)
{
  struct tt_settings settings = {.port = 0};
  snprintf(settings.cache, sizeof settings.cache, "%s", scene->cache[rank]);
  return settings;
}

/* 1: a line of the rank's log has this. */
static int log_has(int rank, const char *text)
{
  char line[1024];
  int has = 0;
  FILE *file = fopen(scene->log[rank], "r");
  while (file && fgets(line, sizeof line, file)) has |= strstr(line, text) != NULL;
  if (file) fclose(file);
  return has;
}

static int was_measured(void)
{
  return log_has(0, "measured in") || log_has(0, "not measured") || log_has(1, "measured in");
}

/* 1: rank's cache knows something of a pair that shares memory. */
static int is_kept(int rank)
{
  struct tt_settings settings = settings_of(rank);
  struct tt_cache cache;
  tt_cache_load(&cache, &settings);
  return cache.n > 0;
}

/* What nobody would measure, in the cache of a rank. */
static void odd_keep(int rank)
{
  struct tt_settings settings = settings_of(rank);
  struct tt_cache cache = {.n = 0};
  for (int kind = TT_LINK_CACHE; kind <= TT_LINK_NODE; kind++) {
    tt_cache_put(&cache, (enum tt_link_kind)kind, "shm", (struct tt_correction){6, -5});
    tt_cache_put(&cache, (enum tt_link_kind)kind, "tcp", (struct tt_correction){5, -4});
  }
  tt_cache_store(&cache, &settings);
}

/* The process that starts the ranks has read and written caches, and so has a log already. */
static void environment_set(const struct ranks *self)
{
  atomic_store(&tt_process.log_level, 0);
  atomic_store(&tt_process.log_file, 0);
  setenv("TUTTI_CACHE", scene->cache[self->rank], 1);
  setenv("TUTTI_DEBUG", "INFO", 1);
  setenv("TUTTI_DEBUG_FILE", scene->log[self->rank], 1);
  if (scene->profile) setenv("TUTTI_PROFILE", scene->profile, 1);
}

static int odd_corrections(const struct tuttiComm *comm)
{
  const struct tt_corrected *corrected = comm->parts.corrected;
  int n = 0;
  for (int kind = 0; kind < TT_LINK_KINDS; kind++)
    n += corrected[kind].transport && corrected[kind].by.alpha == 6 && corrected[kind].by.beta == -5;
  return n;
}

static int sums(const struct ranks *self, tuttiComm_t comm, int nranks)
{
  float data[3] = {1, 2, (float)self->rank};
  RANKS_CHECK(tuttiAllReduce(data, data, 2, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(data[0] == (float)nranks && data[1] == (float)(2 * nranks));
  return 0;
}

/* Messages of the user are numbered from the first one, whatever was sent before. */
static int creates(const struct ranks *self)
{
  tuttiComm_t comm;
  int sent = self->rank, received = -1, peer = 1 - self->rank;
  environment_set(self);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (sums(self, comm, self->nranks)) return 1;
  tuttiGroupStart();
  RANKS_CHECK(tuttiSend(&sent, 1, tuttiInt, peer, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(&received, 1, tuttiInt, peer, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && received == peer);
  RANKS_CHECK(comm->queue.sent[peer] == 1 && comm->queue.received[peer] == 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void create_once(void)
{
  for (int r = 0; r < 2; r++) unlink(scene->log[r]);
  assert_int_equal(ranks_run_processes(2, creates, NULL, LIMIT_S), 0);
}

/* Until a pair has settled and its file is there. */
static int create_until_kept(int rank)
{
  for (int i = 0; i < TRIES; i++) {
    create_once();
    assert_true(was_measured());
    if (is_kept(rank)) return 1;
  }
  return 0;
}

static void on_each_transport(void (*check)(void))
{
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", t ? "tcp" : "shm", 1);
    scene_make();
    check();
    scene_free();
  }
  unsetenv("TUTTI_TRANSPORTS");
}

/* ---- properties ---- */

static void check_once(void)
{
  assert_true(create_until_kept(0));
  create_once();
  assert_false(was_measured());
}

static void a_pair_is_measured_once_for_a_host(void **state)
{
  (void)state;
  on_each_transport(check_once);
}

static void check_first_rank(void)
{
  snprintf(scene->cache[1], sizeof scene->cache[1], "%s/other", scene->folder);
  odd_keep(0);
  create_once(); /* the first rank of the pair knows */
  assert_false(was_measured());
  assert_true(log_has(0, "corrected by a pair in TUTTI_CACHE: latency x"));
  assert_false(is_kept(1));
  strcpy(scene->cache[1], "none");
  create_once();
  assert_false(was_measured());
  strcpy(scene->cache[1], scene->cache[0]);
  snprintf(scene->cache[0], sizeof scene->cache[0], "%s/third", scene->folder);
  assert_true(create_until_kept(0)); /* it does not, the second one does */
}

static void ranks_with_other_caches_agree(void **state)
{
  (void)state;
  on_each_transport(check_first_rank);
}

static void check_none(void)
{
  strcpy(scene->cache[0], "none");
  odd_keep(1);
  create_once();
  assert_false(was_measured());
  assert_false(log_has(0, "corrected by a pair in TUTTI_CACHE: latency x"));
}

static void nothing_is_measured_nor_read_if_rank_0_wants_no_cache(void **state)
{
  (void)state;
  on_each_transport(check_none);
}

static void check_profile(void)
{
  odd_keep(0);
  scene->profile = TT_SHIPPED_PROFILE;
  create_once();
  assert_false(was_measured());
  assert_false(log_has(0, "corrected by a pair in TUTTI_CACHE: latency x"));
}

static void nothing_is_measured_where_there_is_a_profile(void **state)
{
  (void)state;
  on_each_transport(check_profile);
}

static void a_folder_that_cannot_be_written_is_no_error(void **state)
{
  (void)state;
  scene_make();
  for (int r = 0; r < 2; r++) strcpy(scene->cache[r], "/proc/none/such");
  int said = 0;
  for (int i = 0; i < TRIES && !said; i++) {
    create_once();
    assert_true(was_measured());
    said = log_has(0, "is not written");
  }
  assert_true(said);
  assert_false(log_has(1, "is not written")); /* one rank of a host writes */
  scene_free();
}

static int splits(const struct ranks *self)
{
  tuttiComm_t parent, child;
  environment_set(self);
  RANKS_CHECK(tuttiCommInitRank(&parent, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(odd_corrections(parent) > 0);
  RANKS_CHECK(tuttiCommSplit(parent, 0, 1 - self->rank, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(odd_corrections(child) == odd_corrections(parent));
  if (sums(self, child, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(parent) == tuttiSuccess);
  return 0;
}

static void a_child_has_what_its_parent_knows(void **state)
{
  (void)state;
  scene_make();
  odd_keep(0);
  strcpy(scene->cache[1], "none");
  assert_int_equal(ranks_run_processes(2, splits, NULL, LIMIT_S), 0);
  assert_false(was_measured());
  scene_free();
}

/* The two files give the same order and the same groups. */
static int sees_its_own(const struct ranks *self)
{
  tuttiComm_t comm;
  environment_set(self);
  RANKS_CHECK(chdir(scene->folder) == 0);
  RANKS_CHECK(mkdir(self->rank ? "1" : "0", 0700) == 0 && chdir(self->rank ? "1" : "0") == 0);
  FILE *file = fopen("map", "w");
  const char *what = self->rank && scene->differs ? "cache a/-/x" : "numa a/0";
  RANKS_CHECK(file && fprintf(file, "tutti topology 1\nnode a ranks 0-1\n%s ranks 0-1\n", what) > 0);
  RANKS_CHECK(fclose(file) == 0);
  setenv("TUTTI_TOPOLOGY", "map", 1);
  tuttiResult_t result = tuttiCommInitRank(&comm, 2, self->id, self->rank);
  if (scene->differs) {
    RANKS_CHECK(result == tuttiInvalidUsage && strstr(tuttiGetLastError(NULL), "different topologies"));
    return 0;
  }
  RANKS_CHECK(result == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_that_see_other_kinds_of_links_are_told_so(void **state)
{
  (void)state;
  setenv("TUTTI_INIT_TIMEOUT_MS", "5000", 1);
  for (int differs = 0; differs < 2; differs++) {
    scene_make();
    scene->differs = differs;
    assert_int_equal(ranks_run_processes(2, sees_its_own, NULL, LIMIT_S), 0);
    scene_free();
  }
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
}

/* Until it has begun to measure; then it ends, or does nothing any more. */
static int leaves(const struct ranks *self)
{
  struct tt_settings settings;
  struct tuttiComm *comm;
  environment_set(self);
  if (self->rank == 0) {
    tuttiComm_t made;
    long began_ms = meeting_now_ms();
    RANKS_CHECK(tuttiCommInitRank(&made, self->nranks, self->id, self->rank) == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "rank 1"));
    RANKS_CHECK(meeting_now_ms() - began_ms < 30000);
    return 0;
  }
  tt_process_enter();
  RANKS_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  const struct tt_comm_spec spec = {.id = &self->id, .nranks = 2, .rank = 1, .settings = &settings};
  RANKS_CHECK(tt_comm_create(&comm, &spec) == tuttiSuccess);
  while (comm->life.creation->stage != MEASURING) RANKS_CHECK(tt_comm_create_poll(comm) == tuttiInProgress);
  if (scene->ends) tt_comm_create_poll(comm);
  if (scene->ends) raise(SIGKILL);
  pause(); /* until the test ends it */
  return 0;
}

static void check_leaving(void)
{
  setenv("TUTTI_INIT_TIMEOUT_MS", "3000", 1);
  for (scene->ends = 0; scene->ends < 2; scene->ends++) {
    int pids[2];
    assert_int_equal(ranks_start(2, leaves, NULL, pids), 0);
    assert_int_equal(ranks_wait(pids[0], LIMIT_S), 0);
    kill(pids[1], SIGKILL);
    ranks_wait(pids[1], LIMIT_S);
  }
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
}

static void a_partner_that_ends_or_does_not_answer_is_an_error(void **state)
{
  (void)state;
  on_each_transport(check_leaving);
}

int main(void)
{
  if (tt_host_cores() < 2) {
    fprintf(stderr, "skipped: ranks share the only core, so nothing is measured\n");
    return 77;
  }
  scene = ranks_shared(sizeof *scene);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_pair_is_measured_once_for_a_host),
      cmocka_unit_test(ranks_with_other_caches_agree),
      cmocka_unit_test(nothing_is_measured_nor_read_if_rank_0_wants_no_cache),
      cmocka_unit_test(nothing_is_measured_where_there_is_a_profile),
      cmocka_unit_test(a_folder_that_cannot_be_written_is_no_error),
      cmocka_unit_test(a_child_has_what_its_parent_knows),
      cmocka_unit_test(ranks_that_see_other_kinds_of_links_are_told_so),
      cmocka_unit_test(a_partner_that_ends_or_does_not_answer_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
