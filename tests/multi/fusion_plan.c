/* SPDX-License-Identifier: BSD-3-Clause */
/* All ranks change to another plan at the same step, as soon as times say so, and what is sent in a step are the plan's
 * messages, in the plan's order where tensors are pushed in that and nothing is more urgent.
 * Labels: plain. */
#include <unistd.h>

#include "fusion/private.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* No two slices or groups of them have the same length by chance. */
static const tuttiFusionTensor_t tensors[] = {
    {"w0", 2003, tuttiFloat32}, {"b0", 17, tuttiFloat32},  {"w1", 5009, tuttiFloat32}, {"b1", 29, tuttiFloat32},
    {"w2", 3001, tuttiFloat32}, {"b2", 151, tuttiFloat32}, {"w3", 997, tuttiFloat32},  {"b3", 7, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

/* ---- the same plan at the same step ---- */

/* A step whose tensors become ready one after the other, from the last to the first or the other way round. */
static int slow_step(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step,
                     int is_forward)
{
  for (int k = 0; k < TENSORS; k++) {
    int t = is_forward ? k : TENSORS - 1 - k;
    gradient_fill(g, t, self->rank, step);
    usleep(300);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  return gradients_check(self, g, step, 1);
}

static int same_on_all(const struct ranks *self, tuttiComm_t comm, uint64_t number)
{
  uint64_t high, low;
  RANKS_CHECK(tuttiAllReduce(&number, &high, 1, tuttiUint64, tuttiMax, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&number, &low, 1, tuttiUint64, tuttiMin, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(high == low);
  return 0;
}

/* A hash of what the fusion prints of its plan. */
static uint64_t plan_hash(tuttiFusion_t fusion)
{
  char *text = NULL;
  size_t len = 0;
  uint64_t hash = 0xcbf29ce484222325u;
  FILE *out = open_memstream(&text, &len);
  if (!out || tuttiFusionPrint(fusion, out, 1) != tuttiSuccess) abort();
  fclose(out);
  for (size_t i = 0; i < len; i++) hash = (hash ^ (unsigned char)text[i]) * 0x100000001b3u;
  free(text);
  return hash;
}

/* Asked after a step that began with the plan it ended with. */
static int same_plans(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t fusion, tuttiFusionInfo_t *info)
{
  info->size = sizeof *info;
  RANKS_CHECK(tuttiFusionGetInfo(fusion, info) == tuttiSuccess);
  if (same_on_all(self, comm, info->plans) || same_on_all(self, comm, info->planned_step)) return 1;
  if (same_on_all(self, comm, (uint64_t)info->groups) || same_on_all(self, comm, (uint64_t)info->messages)) return 1;
  return same_on_all(self, comm, (uint64_t)info->is_by_priority) || same_on_all(self, comm, plan_hash(fusion));
}

static int one_policy(const struct ranks *self, tuttiComm_t comm, const char *policy)
{
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionInfo_t info = {.size = sizeof info};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = policy;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  if (same_plans(self, comm, fusion, &info)) return 1;
  RANKS_CHECK(info.plans == 1 && info.planned_step == 0 && info.steps == 0);
  for (uint64_t step = 0; step < 55; step++) { /* from the 22nd on the other way round: in the 49th by another plan */
    if (slow_step(self, fusion, &g, step, step > 20)) return 1;
    if (step == 1) RANKS_CHECK(same_plans(self, comm, fusion, &info) == 0 && info.plans == 1);
    if (step == 6 || step == 15 || step == 40) RANKS_CHECK(same_plans(self, comm, fusion, &info) == 0);
  }
  if (same_plans(self, comm, fusion, &info)) return 1;
  RANKS_CHECK(info.plans > 1 && info.steps == 55);
  RANKS_CHECK(info.planned_step == 49 || (!strcmp(policy, "auto") && info.planned_step > 22)); /* which tries plans */
  RANKS_CHECK(info.iteration_us > 8 * 300 && info.predicted_us > 8 * 300);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static int same_plans_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = 0; p < FUSION_POLICIES; p++)
    if (strcmp(fusion_policies[p], "single") && one_policy(self, comm, fusion_policies[p])) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void all_ranks_change_their_plan_at_the_same_step(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 4; nranks++)
    assert_int_equal(run_fusion(nranks % 2 ? "tcp" : "shm", nranks, same_plans_body, NULL), 0);
}

/* ---- the order of messages ---- */

#define MOST_MESSAGES 4096

struct sent {
  double at;
  long long bytes;
};

static int by_time(const void *a, const void *b)
{
  const struct sent *x = a, *y = b;
  return (x->at > y->at) - (x->at < y->at);
}

/* Of two types that take turns, as layers in half precision and their norms in full. */
static const tuttiFusionTensor_t mixed[TENSORS] = {
    {"w0", 2003, tuttiFloat16}, {"b0", 17, tuttiFloat32},  {"w1", 5009, tuttiFloat16}, {"b1", 29, tuttiFloat32},
    {"w2", 3001, tuttiFloat16}, {"b2", 151, tuttiFloat32}, {"w3", 997, tuttiFloat16},  {"b3", 7, tuttiFloat32}};

/* All-reduces of floats of either type that are the library's own, those of the fusion, as they began; how many. */
static int sent_read(const char *path, struct sent sent[MOST_MESSAGES])
{
  char line[4096];
  int n = 0;
  FILE *in = fopen(path, "r");
  if (!in) return -1;
  while (n < MOST_MESSAGES && fgets(line, sizeof line, in)) {
    const char *bytes = strstr(line, "\"bytes\":"), *at = strstr(line, "\"ts\":");
    if (!bytes || !at || !strstr(line, "\"AllReduce")) continue;
    if (!strstr(line, "\"type\":\"float\"") && !strstr(line, "\"type\":\"half\"")) continue;
    if (!strstr(line, "\"cat\":\"internal\"")) continue;
    sent[n++] = (struct sent){strtod(at + 5, NULL), strtoll(bytes + 8, NULL, 10)};
  }
  fclose(in);
  qsort(sent, (size_t)n, sizeof *sent, by_time);
  return n;
}

static int by_bytes(const void *a, const void *b)
{
  const struct sent *x = a, *y = b;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

struct folder {
  char path[64];
  const char *policy;
  const tuttiFusionTensor_t *tensors;
};

/* Tensors are pushed as the plan has them. */
static int planned_step(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  const struct tt_fusion_plan *plan = &fusion->engine.used->fusion;
  for (int k = 0; k < TENSORS; k++) {
    gradient_fill(g, plan->order[k], self->rank, step);
    RANKS_CHECK(gradient_push(fusion, g, plan->order[k], NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  return gradients_check(self, g, step, 1);
}

/* No all-reduces of floats but the fusion's. Of the last step everything is known: what the plan says of its messages,
 * and when they were sent. */
static int sent_body(const struct ranks *self)
{
  static struct sent sent[MOST_MESSAGES];
  const struct folder *folder = self->argument;
  char path[128];
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = folder->policy;
  snprintf(path, sizeof path, "%s/r%d", folder->path, self->rank);
  setenv("TUTTI_TIMELINE", path, 1);
  snprintf(path, sizeof path, "%s/r%d.%d", folder->path, self->rank, self->rank);
  RANKS_CHECK(gradients_make(&g, folder->tensors, TENSORS, self->rank ? FUSION_GAP : 0, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, folder->tensors, TENSORS, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < 14; step++)
    if (slow_step(self, fusion, &g, step, (int)(step + (uint64_t)self->rank) % 2)) return 1;
  if (planned_step(self, fusion, &g, 14)) return 1;
  const struct tt_played *played = &fusion->engine.used->played;
  int by_priority = fusion->engine.used->fusion.by_priority;
  uint64_t bytes = 0;
  struct sent *planned = calloc((size_t)played->nmessages, sizeof *planned);
  RANKS_CHECK(planned && played->nmessages < MOST_MESSAGES);
  for (int64_t m = 0; m < played->nmessages; m++) {
    planned[m].bytes = (long long)played->messages[m].bytes;
    bytes += played->messages[m].bytes;
  }
  RANKS_CHECK(bytes == (g.at[TENSORS] - g.at[0]) - (self->rank ? TENSORS * FUSION_GAP : 0));
  int64_t nmessages = played->nmessages;
  RANKS_CHECK(nmessages == fusion->engine.used->nmessages);
  if (!strcmp(folder->policy, "single")) RANKS_CHECK(nmessages == (folder->tensors == mixed ? 2 : 1));
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  int n = sent_read(path, sent);
  if (n < nmessages) fprintf(stderr, "%s: %d messages, %lld planned\n", path, n, (long long)nmessages);
  RANKS_CHECK(n >= nmessages);
  struct sent *last = sent + (n - nmessages);
  if (by_priority) { /* what becomes ready meanwhile overtakes */
    qsort(last, (size_t)nmessages, sizeof *last, by_bytes);
    qsort(planned, (size_t)nmessages, sizeof *planned, by_bytes);
  }
  for (int64_t m = 0; m < nmessages; m++) RANKS_CHECK(last[m].bytes == planned[m].bytes);
  free(planned);
  gradients_free(&g);
  return 0;
}

static void messages_are_sent_in_the_order_of_the_plan(void **state)
{
  (void)state;
  for (int p = 0; p < FUSION_POLICIES; p++)
    for (int nranks = 2; nranks <= 3; nranks++) {
      struct folder folder = {"/tmp/tutti_fusion_plan_XXXXXX", fusion_policies[p], nranks % 2 ? mixed : tensors};
      char command[128];
      assert_non_null(mkdtemp(folder.path));
      int bad = run_fusion(nranks % 2 ? "tcp" : "shm", nranks, sent_body, &folder);
      snprintf(command, sizeof command, "rm -r %s", folder.path);
      assert_int_equal(system(command), 0);
      assert_int_equal(bad, 0);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_ranks_change_their_plan_at_the_same_step),
      cmocka_unit_test(messages_are_sent_in_the_order_of_the_plan),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
