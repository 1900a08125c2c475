/* SPDX-License-Identifier: BSD-3-Clause */
/* Values that other processes of the job tell: in memory that they can write, and in exchanges, in start-ups, before
 * splits and grows, between steps of fusions, and about the times of calls. Ranks are threads; the linker puts the
 * functions __wrap_* in place of those that exchange (tests/CMakeLists.txt), and these change bytes. Whatever the bytes
 * are, calls end, with results or with errors. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"
#include "comm/creation_private.h"
#include "fusion/private.h"
#include "fuzz.h"
#include "tuner/learn.h"
#include "tutti_fusion.h"

/* ---- restarts: memory that all processes of the job inherit ---- */

/* The first two bytes: the number of the restart, and how many ranks the launcher sees running. */
static void joins_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  char number[16], descriptor[16];
  int restart = (int)fuzz_take(&input, 1), n = (int)fuzz_take(&input, 1) % 4, nranks = 0, has = 0, can_join = 0;
  const int running[] = {restart, 1, 2, -1};
  tuttiUniqueId id;
  struct tt_id unpacked;
  int fd = memfd_create("fuzz-joins", MFD_ALLOW_SEALING);
  FUZZ_CHECK(fd >= 0 && write(fd, input.at, input.left) == (ssize_t)input.left);
  FUZZ_CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  snprintf(number, sizeof number, "%d", restart);
  snprintf(descriptor, sizeof descriptor, "%d", fd);
  setenv("TUTTI_LAUNCH_RESTART", number, 1);
  setenv("TUTTI_LAUNCH_JOINS", descriptor, 1);
  if (tt_join_await(0, &id, &nranks) == tuttiSuccess) {
    FUZZ_CHECK(nranks >= 2);
    (void)tt_id_unpack(&unpacked, &id);
  }
  if (tt_join_take(3, &id, &has) == tuttiSuccess && has) (void)tt_id_unpack(&unpacked, &id);
  (void)tt_joins_running(fd, running, n, &can_join);
  unsetenv("TUTTI_LAUNCH_RESTART");
  unsetenv("TUTTI_LAUNCH_JOINS");
  close(fd);
}

/* Three restarts, of which the first `number` were taken. */
static size_t joins_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const tuttiUniqueId ids[3] = {{{1}}, {{2}}, {{3}}};
  char descriptor[16];
  tuttiUniqueId id;
  int fd, has;
  if (number > 3 || tt_joins_make(ids, 3, &fd) != tuttiSuccess) return 0;
  snprintf(descriptor, sizeof descriptor, "%d", fd);
  setenv("TUTTI_LAUNCH_JOINS", descriptor, 1);
  for (int k = 0; k < number; k++) FUZZ_CHECK(tt_join_take(3 + k, &id, &has) == tuttiSuccess && has);
  unsetenv("TUTTI_LAUNCH_JOINS");
  bytes[0] = 2;
  bytes[1] = (uint8_t)number;
  ssize_t n = pread(fd, bytes + 2, FUZZ_BYTES - 2, 0);
  close(fd);
  FUZZ_CHECK(n > 0);
  return 2 + (size_t)n;
}

/* ---- times of calls: facts of all ranks (tuner/learn.h) ---- */

#define STEPS_MOST 30000 /* of a learner, in one input */

static void learner_check(const struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  int arm = tt_learn_arm(learn);
  FUZZ_CHECK(arm >= 0 && arm < agreed->narms && agreed->incumbent < agreed->narms);
  FUZZ_CHECK(agreed->calls > 0 && agreed->at < agreed->calls);
  if (agreed->state != TT_LEARN_RACE) return;
  FUZZ_CHECK(agreed->race.challenger < agreed->narms && agreed->race.challenger != agreed->incumbent);
  FUZZ_CHECK(agreed->race.slot > 0 && (uint32_t)agreed->race.slot * agreed->race.visits <= agreed->calls);
}

static int64_t fact_take(struct fuzz_bytes *input)
{
  uint64_t number = fuzz_take(input, 1);
  if (number < 128) return (int64_t)number * 1000 - 64000;
  return number < 250 ? (int64_t)(int32_t)fuzz_take(input, 4) : (int64_t)fuzz_take(input, 8);
}

/* A time by this rank's own clock. */
static uint64_t own_take(struct fuzz_bytes *input)
{
  return (uint64_t)fact_take(input) % ((uint64_t)1 << 40);
}

/* Calls until facts are exchanged. */
static int exchange_reach(struct tt_learn *learn, uint64_t ns, int *steps)
{
  while (++*steps < STEPS_MOST) {
    int is_due = tt_learn_step(learn, ns);
    if (is_due) return 1;
    learner_check(learn);
    uint32_t quiet = tt_learn_quiet(learn);
    if (quiet == UINT32_MAX) return 0;
    tt_learn_skip(learn, quiet);
    learner_check(learn);
  }
  return 0;
}

static void learn_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct tt_learn learn;
  int64_t facts[TT_LEARN_FACTS];
  int steps = 0, narms = 2 + (int)(fuzz_take(&input, 1) % (TT_LEARN_ARMS - 1));
  int64_t known_ns = fact_take(&input);
  if (known_ns > 0) tt_learn_resume(&learn, narms, known_ns);
  else tt_learn_init(&learn, narms);
  while (input.left && exchange_reach(&learn, own_take(&input), &steps)) {
    uint64_t other = fuzz_take(&input, 2);
    if (tt_learn_unready(&learn) >= 0) tt_learn_ready(&learn);
    tt_learn_exchanged(&learn, own_take(&input));
    tt_learn_tell(&learn, facts);
    for (int k = 0; k < TT_LEARN_FACTS; k++)
      if (other >> k & 1) facts[k] = fact_take(&input);
    (void)tt_learn_agree(&learn, facts);
    learner_check(&learn);
  }
}

static size_t learn_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  size_t n = 2;
  if (number > 7) return 0;
  bytes[0] = (uint8_t)number;
  bytes[1] = (uint8_t)(number % 4 == 3 ? 127 : 0);
  for (int k = 0; k < 40; k++) {
    const uint8_t exchange[] = {(uint8_t)(70 + k % 3), (uint8_t)(k % 4 == number % 4 ? 1u << k % 8 : 0), 0, 65,
                                (uint8_t)(60 + number)};
    memcpy(bytes + n, exchange, sizeof exchange);
    n += sizeof exchange;
  }
  return n;
}

/* ---- worlds of ranks that are threads ---- */

enum { RANKS = 2, NEWCOMER = RANKS };

/* Changes of what is told: at which time, which byte, and how many. */
struct change {
  uint32_t time;
  size_t at, n;
  uint8_t bytes[16];
};

enum of { NOTHING, MEMBERS, WORDS, FUSIONS };

static struct world {
  enum of of; /* what is changed now */
  int kind, nchanges;
  uint32_t times[RANKS + 1]; /* so far, by rank */
  struct change changes[64];
  tuttiUniqueId id;
  tuttiComm_t comms[2][RANKS + 1]; /* the second ones are for moves */
  void *(*body)(int rank);
} world;

static __thread int thread_rank;

static void world_take(struct fuzz_bytes *input)
{
  memset(&world, 0, sizeof world);
  world.kind = (int)fuzz_take(input, 1);
  while (input->left && world.nchanges < 64) {
    struct change *change = &world.changes[world.nchanges++];
    change->time = (uint32_t)fuzz_take(input, 1);
    change->at = (size_t)fuzz_take(input, 2);
    change->n = 1 + (size_t)fuzz_take(input, 1) % sizeof change->bytes;
    fuzz_fill(input, change->bytes, change->n);
  }
}

/* An input with one change: from `at` on these 8 bytes. */
static size_t change_make(int kind, int time, uint16_t at, uint64_t word, uint8_t bytes[FUZZ_BYTES])
{
  bytes[0] = (uint8_t)kind;
  bytes[1] = (uint8_t)time;
  memcpy(bytes + 2, &at, 2);
  bytes[4] = 7;
  memcpy(bytes + 5, &word, 8);
  return 13;
}

/* Kinds times places, with small and with large values. */
static size_t world_make(int number, int kinds, int times, uint8_t bytes[FUZZ_BYTES])
{
  static const uint16_t places[] = {0, 4, 8, 16, 24, 40, 64, 100, 128, 150, 200, 300};
  bytes[0] = (uint8_t)(number % kinds);
  if (number < kinds) return 1; /* nothing is changed */
  uint64_t word = (number % 3 ? 0 : UINT64_MAX - 255) + (uint64_t)number;
  return change_make(number % kinds, (number / kinds + number / 12) % times, places[number % 12], word, bytes);
}

/* Changes the bytes that rank `rank` tells, or is told, at this time. */
static void told(int rank, void *data, size_t bytes)
{
  uint32_t time = world.times[rank]++;
  for (int k = 0; k < world.nchanges; k++) {
    const struct change *change = &world.changes[k];
    size_t at = bytes ? change->at % bytes : 0;
    size_t n = change->n < bytes - at ? change->n : bytes - at;
    if (change->time == time) memcpy((char *)data + at, change->bytes, n);
  }
}

static void *rank_main(void *argument)
{
  thread_rank = (int)(intptr_t)argument;
  return world.body(thread_rank);
}

static void world_run(enum of of, void *(*body)(int rank), int nranks)
{
  pthread_t threads[RANKS + 1];
  world.of = of;
  world.body = body;
  for (int rank = 0; rank < nranks; rank++)
    FUZZ_CHECK(pthread_create(&threads[rank], NULL, rank_main, (void *)(intptr_t)rank) == 0);
  for (int rank = 0; rank < nranks; rank++) pthread_join(threads[rank], NULL);
  world.of = NOTHING;
}

/* A call that waits in vain ends soon. */
static void patience_set(void)
{
  setenv("TUTTI_INIT_TIMEOUT_MS", "400", 1);
  setenv("TUTTI_TIMEOUT_MS", "400", 1);
  setenv("TUTTI_UNREACHABLE_MS", "200", 1);
}

/* Only this host is called, whatever address was told. */
int connect(int fd, __CONST_SOCKADDR_ARG any, socklen_t len)
{
  static int (*real)(int, const struct sockaddr *, socklen_t);
  const struct sockaddr *address = any.__sockaddr__;
  const struct sockaddr_in *v4 = (const struct sockaddr_in *)(const void *)address;
  const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)(const void *)address;
  void *symbol = dlsym(RTLD_NEXT, "connect");
  memcpy(&real, &symbol, sizeof real);
  int is_here = address->sa_family == AF_UNIX ||
                (address->sa_family == AF_INET && ntohl(v4->sin_addr.s_addr) >> 24 == 127) ||
                (address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr));
  if (is_here) return real(fd, address, len);
  errno = ENETUNREACH;
  return -1;
}

/* ---- start-ups: members, and what they say of their transports ---- */

tuttiResult_t __real_tt_rendezvous_gather(struct tt_rendezvous *rendezvous, const void *mine, size_t len, void *all);
tuttiResult_t __wrap_tt_rendezvous_gather(struct tt_rendezvous *rendezvous, const void *mine, size_t len, void *all);

tuttiResult_t __wrap_tt_rendezvous_gather(struct tt_rendezvous *rendezvous, const void *mine, size_t len, void *all)
{
  uint8_t changed[TT_PEER_INFO_BYTES];
  if (world.of != MEMBERS || thread_rank != 1 || len > sizeof changed)
    return __real_tt_rendezvous_gather(rendezvous, mine, len, all);
  memcpy(changed, mine, len);
  told(1, changed, len);
  return __real_tt_rendezvous_gather(rendezvous, changed, len, all);
}

static void *member_body(int rank)
{
  static const size_t counts[] = {1, 50000};
  tuttiComm_t comm;
  if (tuttiCommInitRank(&comm, RANKS, world.id, rank) != tuttiSuccess) return NULL;
  float *data = calloc(counts[1], sizeof *data);
  FUZZ_CHECK(data);
  for (int k = 0; k < 2; k++)
    if (tuttiAllReduce(data, data, counts[k], tuttiFloat, tuttiSum, comm, NULL) != tuttiSuccess) break;
  (void)tuttiCommAbort(comm);
  free(data);
  return NULL;
}

/* kind: 1: by tcp. */
static void members_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  world_take(&input);
  patience_set();
  if (world.kind % 2) setenv("TUTTI_TRANSPORTS", "tcp", 1);
  if (tuttiGetUniqueId(&world.id) == tuttiSuccess) world_run(MEMBERS, member_body, RANKS);
  unsetenv("TUTTI_TRANSPORTS");
}

static size_t members_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  if (number == 0) return change_make(0, 1, offsetof(struct rank_info, transports[2]), 2, bytes); /* more than usable */
  return number < 60 ? world_make(number - 1, 2, 2, bytes) : 0;
}

/* ---- splits and grows ---- */

struct tt_op *__real_tt_op_take(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding);
struct tt_op *__wrap_tt_op_take(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding);

struct tt_op *__wrap_tt_op_take(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  int is_words = binding->call.form == TT_FORM_SPLIT || binding->call.form == TT_FORM_GROW;
  if (world.of == WORDS && is_words && thread_rank == 1) told(1, (void *)(uintptr_t)binding->in, binding->call.count);
  return __real_tt_op_take(comm, stream, binding);
}

static void *words_body(int rank)
{
  tuttiComm_t parent = world.comms[0][rank], child = NULL;
  tuttiResult_t result;
  float one = 1;
  if (world.kind % 3 == 0) result = tuttiCommSplit(parent, 0, rank, &child, NULL);
  else if (rank == NEWCOMER) result = tuttiCommGrow(NULL, RANKS + 1, &world.id, rank, &child, NULL);
  else result = tuttiCommGrow(parent, RANKS + 1, rank == world.kind % 2 ? &world.id : NULL, -1, &child, NULL);
  if (result == tuttiSuccess && child) (void)tuttiAllReduce(&one, &one, 1, tuttiFloat, tuttiSum, child, NULL);
  if (child) (void)tuttiCommAbort(child);
  return NULL;
}

/* Makes n communicators. 0: a machine that is busy lacks the time for it, so this input shows nothing. */
static int world_meets(int n)
{
  for (int k = 0; k < n; k++) {
    if (tuttiCommInitAll(world.comms[k], RANKS, NULL) == tuttiSuccess) continue;
    while (k-- > 0)
      for (int rank = 0; rank < RANKS; rank++) (void)tuttiCommAbort(world.comms[k][rank]);
    return 0;
  }
  return 1;
}

static void words_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  world_take(&input);
  patience_set();
  if (!world_meets(1)) return;
  FUZZ_CHECK(tuttiGetUniqueId(&world.id) == tuttiSuccess);
  world_run(WORDS, words_body, world.kind % 3 ? RANKS + 1 : RANKS);
  for (int rank = 0; rank < RANKS; rank++) (void)tuttiCommAbort(world.comms[0][rank]);
}

static size_t words_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  return number < 40 ? world_make(number, 3, 1, bytes) : 0;
}

/* ---- fusions: options, prices, times, codecs, moves ---- */

tuttiResult_t __real_tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                                   int redop);
tuttiResult_t __wrap_tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                                   int redop);

/* Rank 0 is told what it is told. */
tuttiResult_t __wrap_tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                                   int redop)
{
  size_t bytes = count * tt_type_size(type) * (collective == TT_ALL_GATHER ? (size_t)config->nranks : 1);
  tuttiResult_t result = __real_tt_fusion_run(config, collective, data, count, type, redop);
  if (world.of == FUSIONS && result == tuttiSuccess && config->rank == 0) told(0, data, bytes);
  return result;
}

enum { TENSORS = 2, COUNT = 40, STEPS = 4, FUSION_KINDS = 6 };

static const struct {
  const char *update, *codec, *other; /* other: codec for the last step */
  int quorum, staleness, moves;
} fusions[FUSION_KINDS] = {{NULL, NULL, NULL, 0, 0, 0},        {"sgd", NULL, NULL, 0, 0, 1},
                           {"sgd", NULL, NULL, 1, 0, 1},       {"easgd:0.5", NULL, NULL, 0, 0, 1},
                           {NULL, "1bit", "int8:64", 0, 0, 1}, {"sgd", NULL, NULL, 1, 5, 1}};

static tuttiResult_t steps_make(tuttiFusion_t fusion, const tuttiFusionTensor_t *tensors, float values[][COUNT])
{
  tuttiResult_t result = tuttiSuccess;
  for (int step = 0; step < STEPS && result == tuttiSuccess; step++) {
    for (int t = 0; t < TENSORS && result == tuttiSuccess; t++)
      result = tuttiFusionPush(fusion, t, values[t], values[t], tensors[t].count, tuttiFloat32, NULL);
    if (result == tuttiSuccess) result = tuttiFusionWaitAll(fusion);
  }
  return result;
}

static void *fusion_body(int rank)
{
  static const tuttiFusionTensor_t tensors[TENSORS] = {{"a", COUNT, tuttiFloat32}, {"b", 3, tuttiFloat32}};
  int kind = world.kind % FUSION_KINDS;
  float values[TENSORS][COUNT] = {{1}};
  tuttiFusion_t fusion = NULL;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = fusions[kind].update;
  config.codec = fusions[kind].codec;
  config.codec_least = 1;
  config.quorum = fusions[kind].quorum;
  config.staleness = fusions[kind].staleness;
  tuttiResult_t result = tuttiFusionCreate(&fusion, world.comms[0][rank], tensors, TENSORS, &config);
  if (result != tuttiSuccess) return NULL;
  for (int t = 0; t < TENSORS && config.update; t++)
    (void)tuttiFusionState(fusion, t, 0, values[t], tensors[t].count, 1);
  result = steps_make(fusion, tensors, values);
  if (result == tuttiSuccess && fusions[kind].other) result = tuttiFusionCodec(fusion, fusions[kind].other);
  if (result == tuttiSuccess && fusions[kind].moves) result = tuttiFusionMove(&fusion, world.comms[1][rank]);
  if (result == tuttiSuccess) (void)steps_make(fusion, tensors, values);
  (void)tuttiFusionAbort(fusion);
  (void)tuttiFusionDestroy(fusion);
  return NULL;
}

static void fusions_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  world_take(&input);
  patience_set();
  if (!world_meets(2)) return;
  world_run(FUSIONS, fusion_body, RANKS);
  for (int k = 0; k < 2; k++)
    for (int rank = 0; rank < RANKS; rank++) (void)tuttiCommAbort(world.comms[k][rank]);
}

static size_t fusions_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const struct {
    int time;
    uint64_t word;
  } wrong[] = {{2, INT64_MAX - 1}, {2, UINT64_MAX - 9}, {3, 1 << 30}, {3, 0}}; /* the tensor that differs; prices */
  if (number < 4) return change_make(0, wrong[number].time, 0, wrong[number].word, bytes);
  return number < 63 ? world_make(number - 4, FUSION_KINDS, 10, bytes) : 0;
}

const struct fuzz_target fuzz_told[] = {
    {"joins", joins_run, NULL, joins_make, 2},
    {"learn", learn_run, NULL, learn_make, 4},
    {"members", members_run, NULL, members_make, 60},
    {"words", words_run, NULL, words_make, 60},
    {"fusions", fusions_run, NULL, fusions_make, 150},
    {NULL, NULL, NULL, NULL, 0},
};
