/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank is killed while a fusion with servers moves: the others get one verdict on all, and without a timeout. If the
 * move has succeeded they go on, else the fusion moves once more, to those that live. Either way weights tell that each
 * contribution of a live rank is in them exactly once, unless `dropped` says otherwise; where ranks exchange weights
 * that are the same on all, these keep their bits. Where all ranks count a move may end on some ranks alone, and the
 * next one then says so on all.
 * "--seed N": the moments of death; "--times N": so many times as many.
 * Labels: processes. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "counted_ranks.h"
#include "tagged_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 4
#define MOVE 6          /* updates, or own steps, after which the fusion moves, */
#define END 12          /* and at the end */
#define MOVE_US 30000   /* about as long as a move takes */

static uint64_t first_seed = 1;
static int times = 1;

struct task {
  struct meeting *meeting;
  int quorum;        /* RANKS: all; 0: by a rule without a decision */
  const struct rule *rule;
  int victim, slow;  /* slow: a rank to which messages come late; -1: none */
  useconds_t us;     /* from the begin of the move to the death */
  int is_left;       /* 1: the victim does not move: it destroys the fusion, and dies meanwhile */
  int before;        /* updates, or own steps, after which the fusion moves */
  _Atomic int moved[RANKS], again[RANKS]; /* 1 + the result of the move, and of another one */
  _Atomic int ended[RANKS], ready, began[COUNTERS];
  float values[RANKS][TAGS];
};

static int wants_all(const struct task *task)
{
  return task->quorum == RANKS;
}

/* ---- the move ---- */

static void *killer(void *argument)
{
  usleep(*(const useconds_t *)argument);
  raise(SIGKILL);
  return NULL;
}

static int victim_end(const struct ranks *self, tuttiFusion_t fusion, tuttiComm_t to)
{
  struct task *task = self->argument;
  pthread_t thread;
  RANKS_CHECK(pthread_create(&thread, NULL, killer, &task->us) == 0);
  if (task->is_left) tuttiFusionDestroy(fusion);
  else atomic_store(&task->moved[self->rank], 1 + (int)tuttiFusionMove(&fusion, to));
  pause();
  return 1;
}

/* All begin the move at the same time, but a victim that leaves. */
static int move_begin(const struct ranks *self, tuttiComm_t first, tuttiFusion_t *fusion, tuttiComm_t *comm)
{
  struct task *task = self->argument;
  int moves = !task->is_left || self->rank != task->victim;
  RANKS_CHECK(tuttiCommSplit(first, moves ? 0 : TUTTI_SPLIT_NOCOLOR, self->rank, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(task->meeting));
  if (self->rank == task->victim) return victim_end(self, *fusion, *comm);
  tuttiResult_t result = tuttiFusionMove(fusion, *comm);
  atomic_store(&task->moved[self->rank], 1 + (int)result);
  RANKS_CHECK(result == tuttiSuccess || (result == tuttiRemoteError && !task->is_left));
  return 0;
}

static int has_moved(const struct ranks *self)
{
  const struct task *task = self->argument;
  return atomic_load(&task->moved[self->rank]) == 1 + tuttiSuccess;
}

/* The move once more, over what is left of the communicator. */
static tuttiResult_t move_again(const struct ranks *self, tuttiFusion_t *fusion, tuttiComm_t *comm)
{
  struct task *task = self->argument;
  tuttiComm_t left;
  if (comm_shrink(self, *comm, task->victim, &left) != 0) return tuttiNumResults;
  tuttiCommAbort(*comm);
  *comm = left;
  tuttiResult_t result = tuttiFusionMove(fusion, left);
  atomic_store(&task->again[self->rank], 1 + (int)result);
  return result;
}

/* ---- by steps that are decided ---- */

static int steps_until(const struct ranks *self, struct life *life, uint64_t updates)
{
  const struct task *task = self->argument;
  while (life->job.info.updates < updates) {
    RANKS_CHECK(life_step(self, life) == 0);
    for (size_t tag = MOVE; tag < TAGS; tag++)
      RANKS_CHECK(!((unsigned)weight_of(&life->job, 0, tag) >> task->victim & 1));
  }
  return 0;
}

/* The shares that a dead rank has served are lost where all count. */
static int life_moved(const struct ranks *self, struct life *life)
{
  const struct task *task = self->argument;
  struct job *job = &life->job;
  uint64_t updates = job->info.updates, dropped = job->info.dropped;
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(job->info.updates == updates && job->info.dropped == dropped);
  return wants_all(task) ? life_give(self, life) : 0;
}

/* A fusion in which all count ends behind a death. */
static int life_move(const struct ranks *self, struct life *life, tuttiComm_t *comm)
{
  struct task *task = self->argument;
  if (task->is_left && wants_all(task)) life->job.quorum = RANKS - 1;
  if (task->is_left) return life_moved(self, life);
  if (has_moved(self) && !wants_all(task)) return 0;
  if (has_moved(self)) RANKS_CHECK(life_fails(self, life) == 0);
  if (wants_all(task)) life->job.quorum = RANKS - 1;
  tuttiResult_t result = move_again(self, &life->job.fusion, comm);
  if (result == tuttiSuccess) return life_moved(self, life);
  RANKS_CHECK(wants_all(task) && result == tuttiInvalidUsage && says("bring fusions that two calls have made"));
  return 0;
}

static int life_body(const struct ranks *self, tuttiComm_t first, tuttiComm_t *comm)
{
  struct task *task = self->argument;
  struct life life = {.job = {.quorum = task->quorum}};
  RANKS_CHECK(life_make(&life));
  RANKS_CHECK(job_make(self, &life.job, first) == 0);
  RANKS_CHECK(steps_until(self, &life, MOVE) == 0);
  RANKS_CHECK(move_begin(self, first, &life.job.fusion, comm) == 0);
  RANKS_CHECK(life_move(self, &life, comm) == 0);
  if (atomic_load(&task->again[self->rank]) <= 1 + tuttiSuccess) {
    RANKS_CHECK(steps_until(self, &life, END) == 0);
    RANKS_CHECK(life_tell(self, &life, task->values[self->rank]) == 0);
    atomic_store(&task->ended[self->rank], 1);
  }
  RANKS_CHECK(tuttiFusionDestroy(life.job.fusion) == tuttiSuccess || !atomic_load(&task->ended[self->rank]));
  life_free(&life);
  return 0;
}

/* ---- by the other rules ---- */

static int counter_body(const struct ranks *self, tuttiComm_t first, tuttiComm_t *comm)
{
  static struct counter counter;
  struct counter *c = &counter;
  struct task *task = self->argument;
  int steps[COUNTERS] = {0};
  for (int rank = 0; rank < RANKS; rank++) steps[rank] = rank == task->victim ? -1 : END;
  *c = (struct counter){.rule = task->rule, .number = self->rank, .began = task->began};
  RANKS_CHECK(counter_make(self, c, first, 0) == 0);
  RANKS_CHECK(counter_steps(self, c, task->before) == 0);
  RANKS_CHECK(move_begin(self, first, &c->fusion, comm) == 0);
  RANKS_CHECK(has_moved(self) || move_again(self, &c->fusion, comm) == tuttiSuccess);
  RANKS_CHECK(counter_steps(self, c, END - task->before) == 0);
  atomic_fetch_add(&task->ready, 1);
  RANKS_CHECK(meeting_await(&task->ready, RANKS - 1));
  RANKS_CHECK(counter_end(self, c, steps) == 0);
  atomic_store(&task->ended[self->rank], 1);
  RANKS_CHECK(tuttiFusionDestroy(c->fusion) == tuttiSuccess);
  return 0;
}

/* ---- tests ---- */

static int move_body(const struct ranks *self)
{
  const struct task *task = self->argument;
  tuttiComm_t first, comm;
  if (self->rank == task->slow) setenv("TUTTI_FAULT", "side=recv,action=delay:3ms", 1);
  RANKS_CHECK(tuttiCommInitRank(&first, RANKS, self->id, self->rank) == tuttiSuccess);
  if (task->quorum) RANKS_CHECK(life_body(self, first, &comm) == 0);
  else RANKS_CHECK(counter_body(self, first, &comm) == 0);
  tuttiCommAbort(comm);
  tuttiCommAbort(first);
  return 0;
}

/* One verdict: where all ranks count, of the second move alone. */
static void alike_check(const struct task *task, const char *which, int counts[3])
{
  int first = task->victim == 0;
  for (int rank = first; rank < RANKS; rank++) {
    if (rank == task->victim) continue;
    int its = atomic_load(&task->moved[rank]), others = atomic_load(&task->moved[first]);
    if (!wants_all(task) && its != others)
      fail_msg("%s: the move returned %d on rank %d, %d on others", which, its - 1, rank, others - 1);
    assert_int_equal(atomic_load(&task->again[rank]), atomic_load(&task->again[first]));
    assert_int_equal(atomic_load(&task->ended[rank]), atomic_load(&task->ended[first]));
    assert_memory_equal(task->values[rank], task->values[first], sizeof task->values[0]);
  }
  counts[!atomic_load(&task->ended[first]) ? 2 : atomic_load(&task->moved[first]) == 1 + tuttiSuccess]++;
}

/* The first three seeds have both transports, a slow rank and none, and a victim that moves and one that leaves. */
static void moved_check(int quorum, const struct rule *rule, uint64_t seed, int counts[3])
{
  const char *transport = ranks_transport_of(seed);
  struct task *task = ranks_shared(sizeof *task);
  uint64_t chance = seed + (rule ? (uint64_t)(1 + rule - rules) << 32 : 0);
  char which[160];
  task->meeting = meeting_make(RANKS);
  task->quorum = quorum;
  task->rule = rule;
  task->victim = (int)below(&chance, RANKS);
  task->us = (useconds_t)below(&chance, MOVE_US);
  task->slow = (task->victim + 1 + (int)below(&chance, RANKS - 1)) % RANKS;
  if (seed / 3 % 2 == 0) task->slow = -1;
  else task->us *= 5;
  task->before = MOVE;
  task->is_left = (seed + seed / 4) % 4 == 3;
  int nbad = run_fusion(transport, RANKS, move_body, task);
  snprintf(which, sizeof which, "%s, %s (quorum %d), seed %llu: rank %d died after %d us, slow %d, left %d", transport,
           rule ? rule->name : "by steps", quorum, (unsigned long long)seed, task->victim, (int)task->us, task->slow,
           task->is_left);
  if (nbad != 1) fail_msg("%s: %d ranks failed", which, nbad);
  alike_check(task, which, counts);
}

/* quorum 0: the rules without a decision, in turn. */
static void moved_run(int quorum, int n)
{
  int counts[3] = {0, 0, 0};
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < n; k++)
    moved_check(quorum, quorum ? NULL : &rules[(k + k / RULES) % RULES], first_seed + (uint64_t)k, counts);
  unsetenv("TUTTI_DEBUG");
  print_message("%d moved at once, %d once more, %d on some ranks alone\n", counts[1], counts[0], counts[2]);
}

static void with_a_quorum_a_death_in_a_move_has_one_verdict(void **state)
{
  (void)state;
  moved_run(2, 3 * times);
}

static void where_all_count_a_move_goes_on_or_is_known_to_be_half_made(void **state)
{
  (void)state;
  moved_run(RANKS, 3 * times);
}

static void without_a_decision_a_death_in_a_move_has_one_verdict(void **state)
{
  (void)state;
  moved_run(0, RULES * times);
}

/* Three ranks move by a rule, and rank 3 leaves the fusion, and dies so long after that. Lane 0 of links is that of
 * collectives, and 1 that of messages. */
static void offers_run(const char *transport, const struct rule *rule, const char *faults, useconds_t us)
{
  struct task *task = ranks_shared(sizeof *task);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_LANES", "1", 1);
  setenv("TUTTI_FAULT", faults, 1);
  task->meeting = meeting_make(RANKS);
  task->rule = rule;
  task->victim = 3;
  task->slow = -1;
  task->us = us;
  task->is_left = 1;
  int nbad = run_fusion(transport, RANKS, move_body, task);
  if (nbad != 1) fail_msg("%s, %s: %d ranks failed", transport, rule->name, nbad);
  unsetenv("TUTTI_LANES");
  unsetenv("TUTTI_FAULT");
  unsetenv("TUTTI_DEBUG");
}

/* Ranks 1 and 3 hear late of each other, so rank 3, which leaves the fusion, still serves when it dies. Rank 0 is to
 * serve its shares, but knows that all have left, and has ended. Rank 1 does not know that of rank 3, but hears of the
 * death: it offers what it has of the shares, which is more than a link holds, and nobody takes it. */
static void a_rank_that_has_ended_holds_up_no_move(void **state)
{
  (void)state;
  setenv("TUTTI_SHM_SLOTS", "4", 1);
  setenv("TUTTI_SHM_SLOT_BYTES", "4096", 1);
  for (int k = 0; k < times; k++)
    offers_run("shm", &rules[k % 2],
               "rank=1,peer=3,lane=1,side=recv,action=delay:500ms;rank=3,peer=1,lane=1,side=recv,action=delay:500ms",
               250000);
  unsetenv("TUTTI_SHM_SLOTS");
  unsetenv("TUTTI_SHM_SLOT_BYTES");
}

/* The others hear late that rank 2 has left, so rank 3 still serves when it dies. Then rank 1 offers what it has to
 * rank 0. The head has come there, and the bytes are under way, when rank 1 hears that all have left. Rank 0, which
 * receives one message at a time, finds the farewell of rank 2 behind these bytes: rank 1 has to send them before it
 * waits for rank 0 in the move. Each packet is two messages of a link, and the first packets are that the fusion is
 * made, the farewell, and the offer. */
static void a_half_sent_offer_holds_up_no_move(void **state)
{
  (void)state;
  for (int k = 0; k < 2 * times; k++)
    offers_run(ranks_transport_of((uint64_t)k), &rules[(k + 1) % 2],
               "rank=1,peer=0,lane=1,side=send,nth=6,action=delay:1500ms;"
               "rank=2,peer=0,lane=1,side=send,nth=3,action=delay:900ms;"
               "rank=2,peer=1,lane=1,side=send,nth=3,action=delay:900ms;"
               "rank=2,peer=3,lane=1,side=send,nth=3,action=delay:900ms", 400000);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_quorum_a_death_in_a_move_has_one_verdict),
      cmocka_unit_test(where_all_count_a_move_goes_on_or_is_known_to_be_half_made),
      cmocka_unit_test(without_a_decision_a_death_in_a_move_has_one_verdict),
      cmocka_unit_test(a_rank_that_has_ended_holds_up_no_move),
      cmocka_unit_test(a_half_sent_offer_holds_up_no_move),
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--times") == 0) times = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
