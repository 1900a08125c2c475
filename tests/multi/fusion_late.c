/* SPDX-License-Identifier: BSD-3-Clause */
/* A tensor that is late holds up no other: what all ranks have pushed is there before they push the rest. Nothing about
 * time is asserted: ranks wait for what was pushed everywhere, and only then push what is late.
 * Labels: slow, processes. */
#include "fusion/private.h"
#include "fusion_ranks.h"

#include <sched.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS (IS_SLOW ? 30 : 60) /* plans are made again after the 3rd, 6th, 12th, 24th and 48th */
#define MOST 8   /* tensors */
#define LIMIT_MS 40000 /* ends what hangs; ranks that are only held up do not come near it */

struct task {
  const char *policy;
  const tuttiFusionTensor_t *tensors;
  int n;
  int late; /* tensor of all steps; -1: drawn */
  size_t buffer_bytes; /* 0: the default. Else a fusion has 3 steps, and tensors 2 k and 2 k + 1 are late together */
};

/* Whether the rank pushes the tensor late in this step. All ranks know. */
static int is_late(const struct task *task, int rank, int tensor, uint64_t step)
{
  if (task->buffer_bytes) tensor /= 2;
  uint64_t state = (step * 64 + (uint64_t)rank) * 64 + (uint64_t)tensor;
  if (task->buffer_bytes) return below(&state, 2) == 0;
  if (step < 2) return 0;
  if (task->late >= 0) return rank == 0 && tensor == task->late && step > 12;
  return below(&state, 4) == 0;
}

static int is_late_somewhere(const struct task *task, int nranks, int tensor, uint64_t step)
{
  int is = 0;
  for (int r = 0; r < nranks; r++) is |= is_late(task, r, tensor, step);
  return is;
}

static int step_run(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  const struct task *task = self->argument;
  uint64_t state = step * 64 + (uint64_t)self->rank;
  int order[MOST];
  shuffled(order, g->n, &state);
  for (int k = 0; k < g->n; k++) {
    int t = task->late < 0 ? order[k] : g->n - 1 - k;
    if (is_late(task, self->rank, t, step)) continue;
    gradient_fill(g, t, self->rank, step);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  for (int t = 0; t < g->n; t++) {
    if (is_late_somewhere(task, self->nranks, t, step)) continue;
    if (tuttiFusionWait(fusion, t) != tuttiSuccess)
      fprintf(stderr, "rank %d, step %llu, %s: tensor %d, which all have pushed: %s\n", self->rank,
              (unsigned long long)step, task->policy, t, tuttiGetLastError(NULL));
    if (gradient_check(self, g, t, step, 1)) return 1;
  }
  for (int k = 0; k < g->n; k++) {
    if (!is_late(task, self->rank, order[k], step)) continue;
    gradient_fill(g, order[k], self->rank, step);
    RANKS_CHECK(gradient_push(fusion, g, order[k], NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  return gradients_check(self, g, step, 1);
}

static int late_body(const struct ranks *self)
{
  const struct task *task = self->argument;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = task->policy;
  config.buffer_bytes = task->buffer_bytes;
  RANKS_CHECK(gradients_make(&g, task->tensors, task->n, FUSION_GAP, self->rank % 2));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  uint64_t steps = task->buffer_bytes ? 3 : STEPS; /* after the 3rd, groups may be others */
  for (uint64_t first = 0; first < STEPS; first += steps) {
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, task->tensors, task->n, &config) == tuttiSuccess);
    for (uint64_t step = first; step < first + steps; step++)
      if (step_run(self, fusion, &g, step)) return 1;
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void the_others_are_there_before_a_late_one_is_pushed(void **state)
{
  static const tuttiFusionTensor_t layers[] = {
      {"0", 1 << 18, tuttiFloat32}, {"1", 1 << 18, tuttiFloat32}, {"2", 1 << 18, tuttiFloat32},
      {"3", 1 << 18, tuttiFloat32}};
  static const char *const policies[] = {"wfbp", "p3:50000"};
  (void)state;
  for (int p = 0; p < 2; p++)
    for (int late = 3; late >= 0; late -= 3) {
      if (IS_SLOW && (late == 0) != p) continue;
      struct task task = {policies[p], layers, 4, late, 0};
      assert_int_equal(run_fusion("tcp", 2, late_body, &task), 0);
    }
}

static void what_all_have_pushed_is_there_before_the_rest_is_pushed(void **state)
{
  static const tuttiFusionTensor_t layers[] = {
      {"0", 700, tuttiFloat32},  {"1", 3, tuttiFloat32},    {"2", 90, tuttiInt64},    {"3", 20000, tuttiFloat32},
      {"4", 1500, tuttiFloat32}, {"5", 5000, tuttiFloat32}, {"6", 1, tuttiFloat64}, {"7", 3000, tuttiFloat32}};
  static const char *const policies[] = {"wfbp", "p3:500"};
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = ranks_first(2, t); nranks <= 5; nranks += ranks_step()) {
      struct task task = {policies[nranks / 2 % 2], layers, MOST, -1, 0};
      assert_int_equal(run_fusion(ranks_transports(t), nranks, late_body, &task), 0);
    }
}

/* Two messages fill it, which wait for late ranks; the others have to get room all the same. Sanitizers are shown 2
 * and 4 ranks, and Release 3 and 5. */
static void the_same_where_the_fusion_buffer_is_full_of_late_messages(void **state)
{
  static const tuttiFusionTensor_t layers[] = {
      {"0", 250, tuttiFloat32}, {"1", 250, tuttiFloat32}, {"2", 250, tuttiFloat32}, {"3", 250, tuttiFloat32},
      {"4", 250, tuttiFloat32}, {"5", 250, tuttiFloat32}, {"6", 250, tuttiFloat32}, {"7", 250, tuttiFloat32}};
  (void)state;
  for (int nranks = ranks_first(2, !IS_SLOW); nranks <= 5; nranks += ranks_step()) {
    struct task task = {"threshold:2000", layers, MOST, -1, 4096};
    assert_int_equal(run_fusion("shm", nranks, late_body, &task), 0);
  }
}

/* ---- messages in flight ---- */

#define SLICE_KIB 256
#define AT_ONCE 5 /* channels */

/* Slices of 256 KiB, and as many in flight as the credit and the channels allow. */
struct flight {
  const char *policy;
  const char *told; /* the credit, as the plan is printed; NULL: none */
  int wanted;
  struct meeting *meeting;
};

static int under_way(tuttiFusion_t fusion)
{
  return (int)__atomic_load_n(&fusion->engine.nbegun, __ATOMIC_ACQUIRE) -
         (int)__atomic_load_n(&fusion->engine.back, __ATOMIC_ACQUIRE);
}

static int credit_is_told(const struct ranks *self, tuttiFusion_t fusion, const char *told)
{
  FILE *file = tmpfile();
  char line[256];
  RANKS_CHECK(file && tuttiFusionPrint(fusion, file, 0) == tuttiSuccess);
  rewind(file);
  RANKS_CHECK(fgets(line, sizeof line, file));
  RANKS_CHECK(told ? strstr(line, told) != NULL : !strstr(line, "in flight"));
  fclose(file);
  return 0;
}

/* Rank 1 pushes nothing before rank 0 has begun all that it may begin without it. */
static int flight_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[] = {{"w", 8 * SLICE_KIB << 8, tuttiFloat32}};
  const struct flight *flight = self->argument;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = flight->policy;
  RANKS_CHECK(gradients_make(&g, tensors, 1, 0, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 1, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < 12; step++) {
    gradient_fill(&g, 0, self->rank, step);
    RANKS_CHECK(meeting_wait(flight->meeting));
    if (self->rank == 1) RANKS_CHECK(meeting_wait(flight->meeting));
    RANKS_CHECK(gradient_push(fusion, &g, 0, NULL) == tuttiSuccess);
    if (self->rank != 1) {
      for (long until_ms = meeting_now_ms() + LIMIT_MS; self->rank == 0 && under_way(fusion) < flight->wanted;) {
        if (meeting_now_ms() > until_ms) fprintf(stderr, "%s: %d in flight\n", flight->policy, under_way(fusion));
        RANKS_CHECK(meeting_now_ms() <= until_ms);
        sched_yield();
      }
      if (self->rank == 0) usleep(2000); /* for more, which would be too many */
      int n = under_way(fusion);
      if (self->rank == 0 && n != flight->wanted)
        fprintf(stderr, "%s: %d in flight, not %d\n", flight->policy, n, flight->wanted);
      RANKS_CHECK(self->rank != 0 || n == flight->wanted);
      RANKS_CHECK(meeting_wait(flight->meeting));
    }
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    if (gradients_check(self, &g, step, 1)) return 1;
  }
  if (credit_is_told(self, fusion, flight->told)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

/* While fewer bytes than the credit are in flight another message begins. */
static void slices_are_in_flight_up_to_the_credit_and_one(void **state)
{
  static const struct flight flights[] = {
      {"p3:65536,0", NULL, 1, NULL},
      {"p3:65536,256K", "; another begins while fewer than 262144 bytes are in flight\n", 1, NULL},
      {"p3:65536,257K", " fewer than 263168 ", 2, NULL},
      {"p3:65536,513K", " fewer than 525312 ", 3, NULL},
      {"p3:65536,1G", " fewer than 1073741824 ", AT_ONCE, NULL}};
  (void)state;
  setenv("TUTTI_FUSION_CHANNELS", "5", 1);
  setenv("TUTTI_ALGO", "ring", 1); /* whose last step comes late */
  for (size_t k = 0; k < sizeof flights / sizeof *flights; k++) {
    struct flight flight = flights[k];
    flight.meeting = meeting_make(3);
    assert_int_equal(run_fusion(k % 2 ? "shm" : "tcp", 3, flight_body, &flight), 0);
    meeting_free(flight.meeting);
  }
  unsetenv("TUTTI_FUSION_CHANNELS");
  unsetenv("TUTTI_ALGO");
}

/* ---- what others have begun ---- */

/* Rank 2 has pushed none of the groups 0, 2 and 4, the first ones of the plan; 1, 3 and 5 it waits for one by one. Rank
 * 0 has two of the former in its fusion buffer, which is full, and has no room for the third, which rank 1 has begun:
 * its tensors lie together there. */
static int owed_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t layers[] = {
      {"0", 250, tuttiFloat32}, {"1", 250, tuttiFloat32}, {"2", 250, tuttiFloat32},  {"3", 250, tuttiFloat32},
      {"4", 250, tuttiFloat32}, {"5", 250, tuttiFloat32}, {"6", 250, tuttiFloat32},  {"7", 250, tuttiFloat32},
      {"8", 250, tuttiFloat32}, {"9", 250, tuttiFloat32}, {"10", 250, tuttiFloat32}, {"11", 250, tuttiFloat32}};
  struct meeting *meeting = self->argument;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = "threshold:2000"; /* pairs of tensors, from the last on */
  config.buffer_bytes = 4096;
  RANKS_CHECK(gradients_make(&g, layers, 12, self->rank == 1 ? 0 : FUSION_GAP, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, layers, 12, &config) == tuttiSuccess);
  for (int t = 11; t >= 0; t--) {
    gradient_fill(&g, t, self->rank, 0);
    if (self->rank < 2) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
  }
  for (int t = 8; t >= 0; t -= 4) {
    long until_ms = meeting_now_ms() + LIMIT_MS;
    while (self->rank == 1 && t == 0 && under_way(fusion) < 5) RANKS_CHECK(meeting_now_ms() <= until_ms);
    RANKS_CHECK(meeting_wait(meeting));
    for (int k = 1; self->rank == 2 && k >= 0; k--)
      RANKS_CHECK(gradient_push(fusion, &g, t + k, NULL) == tuttiSuccess);
    if (tuttiFusionWait(fusion, t) != tuttiSuccess)
      fprintf(stderr, "rank %d: tensor %d, which all have pushed: %s\n", self->rank, t, tuttiGetLastError(NULL));
    if (gradient_check(self, &g, t, 0, 1)) return 1;
  }
  for (int t = 11; t >= 0; t--)
    if (self->rank == 2 && t % 4 > 1) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  if (gradients_check(self, &g, 0, 1)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void a_message_that_others_have_begun_holds_up_no_other_if_it_has_no_room(void **state)
{
  struct meeting *meeting = meeting_make(3);
  (void)state;
  setenv("TUTTI_FUSION_CHANNELS", "3", 1);
  assert_int_equal(run_fusion("shm", 3, owed_body, meeting), 0);
  unsetenv("TUTTI_FUSION_CHANNELS");
  meeting_free(meeting);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_others_are_there_before_a_late_one_is_pushed),
      cmocka_unit_test(what_all_have_pushed_is_there_before_the_rest_is_pushed),
      cmocka_unit_test(the_same_where_the_fusion_buffer_is_full_of_late_messages),
      cmocka_unit_test(slices_are_in_flight_up_to_the_credit_and_one),
      cmocka_unit_test(a_message_that_others_have_begun_holds_up_no_other_if_it_has_no_room),
  };
  setenv("TUTTI_TIMEOUT_MS", "40000", 0); /* LIMIT_MS */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
