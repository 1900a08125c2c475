/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion never waits for ever: a rank that dies in a step, aborts, leaves it or does not push ends the waits of all
 * others with an error that says so; after that no buffer is touched, and the communicator's survivors go on.
 * Labels: slow. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "../multi/fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 4
#define VICTIM 1
#define LAST_STEP 5 /* in which it happens */
#define KNOWN_MS 30000 /* the promise is one second, if nothing holds the ranks up */

static const tuttiFusionTensor_t tensors[] = {{"w0", 60000, tuttiFloat32}, {"b0", 30, tuttiFloat32},
                                              {"w1", 3000, tuttiFloat32},  {"b1", 30, tuttiFloat32},
                                              {"w2", 30000, tuttiFloat32}, {"b2", 1, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static struct meeting *meeting; /* of all ranks of a trial */

struct trial {
  const char *policy;
  int pushes; /* tensors that the victim pushes in the last step, the last layers first */
  int waits;  /* what the others do: 0: tuttiFusionWaitAll, 1: tuttiFusionWait, 2: tuttiFusionQuery */
};

static void push_some(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step, int n)
{
  for (int t = TENSORS - 1; t >= TENSORS - n; t--) {
    gradient_fill(g, t, self->rank, step);
    gradient_push(fusion, g, t, NULL); /* refused once the fusion has failed */
  }
}

static tuttiResult_t wait_as(tuttiFusion_t fusion, int waits)
{
  tuttiResult_t result = tuttiSuccess;
  if (waits == 0) return tuttiFusionWaitAll(fusion);
  for (int t = 0; t < TENSORS && result == tuttiSuccess; t++) {
    result = waits == 1 ? tuttiFusionWait(fusion, t) : tuttiInProgress;
    while (result == tuttiInProgress) result = tuttiFusionQuery(fusion, t);
  }
  return result;
}

/* The communicator, the fusion, and the steps before the last one. */
static int start(const struct ranks *self, const struct trial *trial, tuttiComm_t *comm, tuttiFusion_t *fusion,
                 struct gradients *g)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = trial->policy;
  config.overflow = config.norms = 1;
  if (!*comm) RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(gradients_make(g, tensors, TENSORS, self->rank % 2 ? FUSION_GAP : 0, 1));
  RANKS_CHECK(tuttiFusionCreate(fusion, *comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < LAST_STEP; step++)
    if (fusion_step(self, *fusion, g, step)) return 1;
  int x = 1; /* nobody begins the last step, and fails in it, while others still wait for the one before */
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, *comm, NULL) == tuttiSuccess && x == self->nranks);
  return 0;
}

/* Every call returns the first error. */
static int has_failed(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, tuttiResult_t code)
{
  int overflow = 7;
  double norm = 7;
  RANKS_CHECK(gradient_push(fusion, g, 0, NULL) == code && gradient_push(fusion, g, TENSORS - 1, NULL) == code);
  RANKS_CHECK(tuttiFusionWait(fusion, 0) == code && tuttiFusionQuery(fusion, 1) == code);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == code);
  RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == code && tuttiFusionNorm(fusion, 0, &norm) == code);
  RANKS_CHECK(overflow == 7 && norm == 7);
  return 0;
}

/* Where IS_SLOW, every other trial of a list is tried on one transport, and the rest on the next one. */
static size_t first_of(int transport)
{
  return IS_SLOW ? (size_t)transport % 2 : 0;
}

/* ---- death ---- */

static int survivors_go_on(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  int dead = VICTIM;
  tuttiComm_t shrunk = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  struct ranks fewer = *self;
  RANKS_CHECK(tuttiCommShrink(comm, &dead, 1, &shrunk, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  fewer.nranks--;
  fewer.rank -= self->rank > VICTIM;
  if (start(&fewer, trial, &shrunk, &fusion, &g)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(shrunk) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

/* The communicator finds out by itself, at about the same time; it is the one that logs it. */
static int comm_knows(const struct ranks *self, tuttiComm_t comm)
{
  tuttiResult_t result = tuttiSuccess;
  long began_ms = meeting_now_ms();
  while (result == tuttiSuccess && meeting_now_ms() - began_ms < KNOWN_MS) {
    usleep(1000);
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &result) == tuttiSuccess);
  }
  RANKS_CHECK(result == tuttiRemoteError);
  return 0;
}

static int dies_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  RANKS_CHECK(meeting_wait(meeting)); /* nobody waits for the victim yet */
  push_some(self, fusion, &g, LAST_STEP, self->rank == VICTIM ? trial->pushes : TENSORS);
  if (self->rank == VICTIM) raise(SIGKILL);
  long began_ms = meeting_now_ms();
  tuttiResult_t result = wait_as(fusion, trial->waits);
  if (result == tuttiSuccess && trial->pushes == TENSORS) { /* all of it was sent before it died */
    push_some(self, fusion, &g, LAST_STEP + 1, TENSORS);
    result = wait_as(fusion, trial->waits);
  }
  RANKS_CHECK(result == tuttiRemoteError && says("rank 1"));
  RANKS_CHECK(meeting_now_ms() - began_ms < KNOWN_MS);
  if (has_failed(self, fusion, &g, tuttiRemoteError)) return 1;
  RANKS_CHECK(says("rank 1"));
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiRemoteError);
  gradients_free(&g);
  if (comm_knows(self, comm) || survivors_go_on(self, comm, trial)) return 1;
  tuttiCommDestroy(comm);
  return 0;
}

/* Each rank pushes other tensors first, so that the ranks are in a round, or before or behind one. */
static int dies_in_a_round_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  RANKS_CHECK(meeting_wait(meeting));
  for (int k = 0; k < TENSORS; k++) {
    int t = (2 * self->rank + k) % TENSORS;
    if (self->rank == VICTIM && k == trial->pushes) usleep((useconds_t)trial->pushes * 100);
    if (self->rank == VICTIM && k == trial->pushes) raise(SIGKILL);
    if (self->rank != VICTIM && k == TENSORS / 2) usleep(300);
    gradient_fill(&g, t, self->rank, LAST_STEP);
    gradient_push(fusion, &g, t, NULL);
  }
  RANKS_CHECK(wait_as(fusion, trial->waits) == tuttiRemoteError && says("rank 1"));
  if (has_failed(self, fusion, &g, tuttiRemoteError)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiRemoteError);
  gradients_free(&g);
  if (comm_knows(self, comm) || survivors_go_on(self, comm, trial)) return 1;
  tuttiCommDestroy(comm);
  return 0;
}

static void run_deaths_of(ranks_body body, const struct trial *trial)
{
  int pids[RANKS];
  meeting = meeting_make(RANKS);
  assert_int_equal(ranks_start(RANKS, body, (void *)(uintptr_t)trial, pids), 0);
  for (int r = 0; r < RANKS; r++) assert_int_equal(ranks_wait(pids[r], 60), r == VICTIM ? 128 + SIGKILL : 0);
  meeting_free(meeting);
}

static void run_deaths(const struct trial *trial)
{
  run_deaths_of(dies_body, trial);
}

static void a_death_in_a_round_ends_every_wait(void **state)
{
  static const char *const policies[] = {"wfbp", "p3:5000"};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int pushes = 1; pushes < TENSORS; pushes += 1 + IS_SLOW) {
      struct trial trial = {policies[pushes % 2], pushes, pushes % 3};
      setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
      run_deaths_of(dies_in_a_round_body, &trial);
    }
}

static void a_death_in_a_step_ends_every_wait(void **state)
{
  static const struct trial trials[] = {
      {"auto", 0, 0}, {"auto", 3, 1}, {"auto", TENSORS, 2}, {"wfbp", 3, 0}, {"single", 5, 2}, {"p3:5000", 2, 1}};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (size_t k = first_of(t); k < sizeof trials / sizeof *trials; k += 1 + IS_SLOW) {
      setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
      run_deaths(&trials[k]);
    }
}

/* Whatever watches over the ranks: one rank says it, once. */
static void a_death_is_logged_once(void **state)
{
  static const struct trial trial = {"auto", 3, 0};
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    char name[] = "/tmp/tutti-fusion-log-XXXXXX", line[1024];
    int file = mkstemp(name), lines = 0, deaths = 0;
    assert_true(file >= 0);
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    setenv("TUTTI_DEBUG", "WARN", 1);
    setenv("TUTTI_DEBUG_FILE", name, 1);
    run_deaths(&trial);
    unsetenv("TUTTI_DEBUG_FILE");
    setenv("TUTTI_DEBUG", "NONE", 1);
    FILE *log = fdopen(file, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log)) {
      lines++;
      deaths += strstr(line, "rank 1") != NULL;
      if (lines > 1) fprintf(stderr, "%s", line);
    }
    fclose(log);
    unlink(name);
    assert_true(lines == 1 && deaths == 1);
  }
}

/* ---- abort and destroy ---- */

struct aborter {
  tuttiFusion_t fusion;
  tuttiResult_t result;
};

static void *abort_soon(void *argument)
{
  struct aborter *aborter = argument;
  usleep(100000);
  aborter->result = tuttiFusionAbort(aborter->fusion);
  return NULL;
}

/* What is left when the fusion is gone: the communicator, and another fusion on it. */
static int goes_on(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  tuttiFusion_t fusion;
  struct gradients g;
  int x = 1;
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess && x == self->nranks);
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

/* The victim's own thread waits, too, for tensors that the other thread would have to push. */
static int aborts_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  pthread_t thread;
  struct aborter aborter = {NULL, tuttiSuccess};
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  push_some(self, fusion, &g, LAST_STEP, self->rank == VICTIM ? trial->pushes : TENSORS);
  aborter.fusion = fusion;
  if (self->rank == VICTIM) RANKS_CHECK(pthread_create(&thread, NULL, abort_soon, &aborter) == 0);
  tuttiResult_t result = tuttiSuccess;
  if (self->rank != VICTIM) result = wait_as(fusion, trial->waits);
  for (int t = TENSORS - 1; self->rank == VICTIM && t >= TENSORS - trial->pushes && result == tuttiSuccess; t--)
    result = tuttiFusionWait(fusion, t);
  if (self->rank == VICTIM) {
    pthread_join(thread, NULL);
    RANKS_CHECK(aborter.result == tuttiSuccess);
    /* Those that were pushed had come before; the abort is known soon. */
    for (int k = 0; k < 500 && (result == tuttiSuccess || result == tuttiInvalidUsage); k++) {
      usleep(10000);
      result = tuttiFusionWaitAll(fusion);
    }
  }
  RANKS_CHECK(result == tuttiRemoteError);
  if (has_failed(self, fusion, &g, tuttiRemoteError)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiRemoteError);
  gradients_free(&g);
  return goes_on(self, comm, trial);
}

/* The victim destroys the fusion; where it is everybody's victim, all do. */
static int destroys_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  int leaves = self->rank == VICTIM || trial->waits < 0;
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  push_some(self, fusion, &g, LAST_STEP, leaves ? trial->pushes : TENSORS);
  if (!leaves) RANKS_CHECK(wait_as(fusion, trial->waits) == tuttiRemoteError);
  tuttiFusionDestroy(fusion); /* what was pushed is the caller's again: */
  memset(g.in, 0xee, g.at[TENSORS]);
  gradients_free(&g);
  return goes_on(self, comm, trial);
}

static void run(const char *transport, ranks_body body, const struct trial *trial)
{
  setenv("TUTTI_TRANSPORTS", transport, 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  meeting = meeting_make(3);
  assert_int_equal(ranks_run_processes(3, body, (void *)(uintptr_t)trial, 60), 0);
  meeting_free(meeting);
}

static void an_abort_ends_every_wait(void **state)
{
  static const struct trial trials[] = {{"auto", 4, 0}, {"single", 5, 1}, {"p3:5000", 1, 2}, {"wfbp", 3, 1}};
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (size_t k = first_of(t); k < sizeof trials / sizeof *trials; k += 1 + IS_SLOW)
      run(ranks_transports(t), aborts_body, &trials[k]);
}

static void a_fusion_may_be_destroyed_in_a_step(void **state)
{
  static const struct trial trials[] = {{"auto", 3, 0}, {"p3:5000", 5, 1}, {"wfbp", 2, 2},
                                        {"auto", 4, -1}, {"wfbp", 5, -1},  {"single", 0, 0}};
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (size_t k = first_of(t); k < sizeof trials / sizeof *trials; k += 1 + IS_SLOW)
      run(ranks_transports(t), destroys_body, &trials[k]);
}

/* ---- a rank that does not push ---- */

static int silent_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 2000; /* no rank is held up for so long in a step before */
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  long began_ms = meeting_now_ms();
  push_some(self, fusion, &g, LAST_STEP, self->rank == VICTIM ? trial->pushes : TENSORS);
  tuttiResult_t result = tuttiSuccess;
  if (self->rank != VICTIM) result = wait_as(fusion, trial->waits);
  for (int t = TENSORS - trial->pushes; self->rank == VICTIM && t < TENSORS && result == tuttiSuccess; t++)
    result = tuttiFusionWait(fusion, t);
  RANKS_CHECK(result != tuttiSuccess && result != tuttiInProgress);
  const char *sentence = tuttiGetLastError(NULL);
  printf("rank %d after %ld ms: %s\n", self->rank, meeting_now_ms() - began_ms, sentence);
  fflush(stdout);
  RANKS_CHECK(strstr(sentence, "rank 1") || strstr(sentence, "w0"));
  RANKS_CHECK(meeting_wait(meeting)); /* the others find out by themselves, not by its abort */
  tuttiFusionDestroy(fusion);
  tuttiCommAbort(comm);
  gradients_free(&g);
  return 0;
}

static void a_rank_that_does_not_push_is_named(void **state)
{
  static const struct trial trials[] = {{"single", 5, 0}, {"single", 5, 1}};
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (size_t k = first_of(t); k < sizeof trials / sizeof *trials; k += 1 + IS_SLOW)
      run(ranks_transports(t), silent_body, &trials[k]);
}

/* Rank 0 waits for the last tensor and has not pushed the first one; the others push nothing. */
static int waits_body(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  tuttiComm_t comm = NULL;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 3000;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (start(self, trial, &comm, &fusion, &g)) return 1;
  push_some(self, fusion, &g, LAST_STEP, self->rank ? 0 : TENSORS - 1);
  if (self->rank == 0) RANKS_CHECK(tuttiFusionWait(fusion, TENSORS - 1) != tuttiSuccess);
  RANKS_CHECK(meeting_wait(meeting));
  tuttiFusionDestroy(fusion);
  tuttiCommAbort(comm);
  gradients_free(&g);
  return 0;
}

static void a_long_wait_tells_what_holds_it_up(void **state)
{
  static const struct { struct trial trial; const char *why; } plays[] = {
      {{"single", 0, 1}, "for tensor 5 (b2), which is sent together with others; "},
      {{"wfbp", 0, 1}, "for tensor 5 (b2), which may be late on another rank; "}};
  (void)state;
  for (size_t k = 0; k < sizeof plays / sizeof *plays; k++) {
    char name[] = "/tmp/tutti-fusion-log-XXXXXX", line[1024];
    int file = mkstemp(name), told = 0;
    assert_true(file >= 0);
    setenv("TUTTI_TRANSPORTS", "shm", 1);
    setenv("TUTTI_DEBUG", "WARN", 1);
    setenv("TUTTI_LATE_WARN_MS", "300", 1);
    setenv("TUTTI_DEBUG_FILE", name, 1);
    meeting = meeting_make(3);
    assert_int_equal(ranks_run_processes(3, waits_body, (void *)(uintptr_t)&plays[k].trial, 60), 0);
    meeting_free(meeting);
    unsetenv("TUTTI_DEBUG_FILE");
    unsetenv("TUTTI_LATE_WARN_MS");
    setenv("TUTTI_DEBUG", "NONE", 1);
    FILE *log = fdopen(file, "r");
    assert_non_null(log);
    while (fgets(line, sizeof line, log))
      told += strstr(line, plays[k].why) && strstr(line, "tensor 0 (w0) was not pushed in this step, 1 in all");
    fclose(log);
    unlink(name);
    assert_true(told > 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_death_in_a_step_ends_every_wait),
      cmocka_unit_test(a_death_in_a_round_ends_every_wait),
      cmocka_unit_test(a_death_is_logged_once),
      cmocka_unit_test(an_abort_ends_every_wait),
      cmocka_unit_test(a_fusion_may_be_destroyed_in_a_step),
      cmocka_unit_test(a_rank_that_does_not_push_is_named),
      cmocka_unit_test(a_long_wait_tells_what_holds_it_up),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
