/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of the fake NCCL. All that the GPU has to do is put into its stream before a call returns:
 *
 *   copies into this rank's slot, write ready = n | wait done >= n, copies out of the slot
 *
 * Ranks that are threads of one process meet at the bar, for their streams may share a channel. It is slow, has no
 * limits that anybody checks, and knows only what gpu_client asks. */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fake_nccl.h"
#include "gpu_values.h"

#define EXPORT __attribute__((visibility("default")))
#define LOCALS 64
#define TICKETS 64

/* The ranks of one communicator that are in this process. */
struct local {
  char name[64];
  int count, arrived, round;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t met = PTHREAD_COND_INITIALIZER;
static struct local locals[LOCALS];
static struct driver cu;
static uint64_t scalars[TICKETS]; /* of pre-multiplied sums, by operation - 5 */

static _Thread_local struct op *group[256];
static _Thread_local int ngroup, depth;

static void ok(int code, const char *what)
{
  if (code == 0) return;
  fprintf(stderr, "fake NCCL: error %d of %s\n", code, what);
  _exit(3);
}
#define CU(call) ok(cu.call, #call)

/* FAKE_NCCL_BREAK is one of: sum (a wrong byte), wait (nobody waits for the result), sync (a call waits for the
 * stream), create (a call makes an event). */
static int is_broken(const char *how)
{
  const char *what = getenv("FAKE_NCCL_BREAK");
  return what && strcmp(what, how) == 0;
}

/* ---- creation ---- */

EXPORT int ncclGetUniqueId(ncclUniqueId *id)
{
  static int ids;
  memset(id, 0, sizeof *id);
  int number = __atomic_add_fetch(&ids, 1, __ATOMIC_RELAXED);
  snprintf(id->internal, sizeof id->internal, "/fake_nccl.%d.%d", (int)getpid(), number);
  return ncclSuccess;
}

static struct local *local_join(const char *name)
{
  pthread_mutex_lock(&mutex);
  if (!cu.cuInit) {
    const char *wrong = driver_load(&cu, "libcuda.so.1");
    if (wrong) ok(-1, wrong);
  }
  int l = 0;
  while (l < LOCALS - 1 && locals[l].name[0] && strcmp(locals[l].name, name) != 0) l++;
  snprintf(locals[l].name, sizeof locals[l].name, "%.60s", name);
  locals[l].count++;
  pthread_mutex_unlock(&mutex);
  return &locals[l];
}

static size_t shared_len(int nranks)
{
  return 65536 + (size_t)nranks * SLOT;
}

static void shared_map(struct ncclComm *comm, const char *name)
{
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, (off_t)shared_len(comm->nranks)) != 0) ok(-1, "shm_open");
  char *at = mmap(NULL, shared_len(comm->nranks), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (at == MAP_FAILED) ok(-1, "mmap");
  comm->shared = (struct shared *)(void *)at;
  for (int r = 0; r < comm->nranks; r++) comm->in[r] = (unsigned char *)at + 65536 + (size_t)r * SLOT;
}

static void comm_begin(ncclComm_t *made, int nranks, const ncclUniqueId *id, int rank)
{
  struct ncclComm *comm = calloc(1, sizeof *comm);
  void *pinned;
  if (!comm) ok(-1, "calloc");
  comm->rank = rank;
  comm->nranks = nranks;
  comm->local = local_join(id->internal);
  shared_map(comm, id->internal);
  CU(cuCtxGetCurrent(&comm->context));
  CU(cuMemHostRegister_v2(comm->in[rank], SLOT, 3));
  CU(cuMemHostAlloc(&pinned, SLOT, 3));
  comm->out = pinned;
  CU(cuMemHostAlloc(&pinned, sizeof *comm->words, 3));
  comm->words = pinned;
  memset(pinned, 0, sizeof *comm->words);
  for (int e = 0; e < 3; e++) CU(cuEventCreate(&comm->events[e], 2));
  comm->shared->pids[rank] = getpid();
  __atomic_add_fetch(&comm->shared->joined, 1, __ATOMIC_SEQ_CST);
  *made = comm;
}

static void comm_ready(struct ncclComm *comm, const char *name)
{
  pthread_t thread;
  while (__atomic_load_n(&comm->shared->joined, __ATOMIC_ACQUIRE) < comm->nranks) usleep(100);
  for (int r = 0; r < comm->nranks; r++)
    comm->pidfds[r] = (int)syscall(SYS_pidfd_open, comm->shared->pids[r], 0);
  if (comm->rank == 0) shm_unlink(name);
  if (pthread_create(&thread, NULL, host_main, comm) != 0) ok(-1, "pthread_create");
  pthread_detach(thread);
}

EXPORT int ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
  comm_begin(comm, nranks, &id, rank);
  comm_ready(*comm, id.internal);
  return ncclSuccess;
}

EXPORT int ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devices)
{
  ncclUniqueId id;
  void *context;
  ncclGetUniqueId(&id);
  local_join("the driver is loaded");
  for (int r = 0; r < ndev; r++) {
    CU(cuDevicePrimaryCtxRetain(&context, devices[r]));
    CU(cuCtxPushCurrent_v2(context));
    comm_begin(&comms[r], ndev, &id, r);
    CU(cuCtxPopCurrent_v2(&context));
  }
  for (int r = 0; r < ndev; r++) comm_ready(comms[r], id.internal);
  return ncclSuccess;
}

static void all_have_split(const struct ncclComm *comm)
{
  for (int r = 0; r < comm->nranks;)
    if (__atomic_load_n(&comm->shared->split[r], __ATOMIC_ACQUIRE) < comm->splits) usleep(100);
    else r++;
}

EXPORT int ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *made, void *config)
{
  struct shared *shared = comm->shared;
  ncclUniqueId id = {""};
  int rank = 0, nranks = 0;
  (void)config;
  shared->colors[comm->rank] = color;
  shared->keys[comm->rank] = key;
  __atomic_store_n(&shared->split[comm->rank], ++comm->splits, __ATOMIC_RELEASE);
  all_have_split(comm);
  for (int r = 0; r < comm->nranks; r++) {
    if (shared->colors[r] != color) continue;
    nranks++;
    rank += shared->keys[r] < key || (shared->keys[r] == key && r < comm->rank);
  }
  __atomic_store_n(&shared->split[comm->rank], ++comm->splits, __ATOMIC_RELEASE);
  all_have_split(comm);
  snprintf(id.internal, sizeof id.internal, "%.40s.%u.%d", comm->local->name, comm->splits, color);
  return ncclCommInitRank(made, nranks, id, rank);
}

/* Not needed to prove the client. */
EXPORT int ncclCommShrink(ncclComm_t comm, int *exclude, int n, ncclComm_t *made, void *config, int flags)
{
  (void)comm, (void)exclude, (void)n, (void)made, (void)config, (void)flags;
  return ncclInvalidUsage;
}

/* ---- ends ---- */

EXPORT int ncclCommGetAsyncError(ncclComm_t comm, int *error)
{
  *error = __atomic_load_n(&comm->error, __ATOMIC_ACQUIRE);
  return ncclSuccess;
}

EXPORT int ncclCommFinalize(ncclComm_t comm)
{
  while (__atomic_load_n(&comm->started, __ATOMIC_ACQUIRE) != comm->called &&
         !__atomic_load_n(&comm->is_over, __ATOMIC_ACQUIRE))
    usleep(100);
  return ncclSuccess;
}

/* Releases the stream by stores; what it used stays. */
EXPORT int ncclCommAbort(ncclComm_t comm)
{
  __atomic_store_n(&comm->aborts, 1, __ATOMIC_SEQ_CST);
  while (!__atomic_load_n(&comm->is_over, __ATOMIC_ACQUIRE)) usleep(100);
  __atomic_store_n(&comm->words->done, comm->called + (1u << 30), __ATOMIC_SEQ_CST);
  return ncclSuccess;
}

EXPORT int ncclCommDestroy(ncclComm_t comm)
{
  while (__atomic_load_n(&comm->words->done, __ATOMIC_ACQUIRE) != comm->called) usleep(100);
  __atomic_store_n(&comm->aborts, 1, __ATOMIC_SEQ_CST);
  return ncclSuccess;
}

/* ---- what goes into streams ---- */

static void word_op(void *stream, uint32_t *first, uint32_t value, int operation)
{
  struct memop op = {.operation = operation, .address = (uintptr_t)first, .value = value};
  CU(cuStreamBatchMemOp_v2(stream, 1, &op, 0));
}

static int is_captured(void *stream)
{
  int status = 0;
  CU(cuStreamIsCapturing(stream, &status));
  return status;
}

static void follow(void *stream, void *other, void *event)
{
  if (stream == other) return;
  CU(cuEventRecord(event, other));
  CU(cuStreamWaitEvent(stream, event, 0));
}

/* Copies into the slot, and the word. */
static void down(struct op *op, uint32_t *number)
{
  struct ncclComm *comm = op->comm;
  int captures = is_captured(op->stream);
  if (comm->has_last && !captures) follow(op->stream, comm->last, comm->events[0]);
  for (int d = 0; d < op->ndowns; d++) {
    const struct part *part = &op->downs[d];
    if (comm->has_last && !captures) follow(part->stream, comm->last, comm->events[0]);
    CU(cuMemcpyAsync((uintptr_t)comm->in[comm->rank] + part->at, part->pointer, part->len, part->stream));
    follow(op->stream, part->stream, comm->events[1]);
  }
  for (int u = 0; u < op->nups; u++) follow(op->stream, op->ups[u].stream, comm->events[1]);
  *number = captures ? (uint32_t)++comm->ncaptured : ++comm->called;
  struct op **at = captures ? &comm->captured[*number] : &comm->ops[*number % RING];
  if (!captures) free(*at); /* done long ago: a channel holds fewer */
  *at = op;
  word_op(op->stream, captures ? &comm->words->graph_ready : &comm->words->ready, *number, 2);
}

static void up(struct op *op, uint32_t number)
{
  struct ncclComm *comm = op->comm;
  int captures = is_captured(op->stream);
  if (!is_broken("wait")) word_op(op->stream, captures ? &comm->words->graph_done : &comm->words->done, number, 1);
  if (captures) word_op(op->stream, &comm->words->graph_done, 0, 2);
  for (int u = 0; u < op->nups; u++) {
    const struct part *part = &op->ups[u];
    follow(part->stream, op->stream, comm->events[2]);
    CU(cuMemcpyAsync(part->pointer, (uintptr_t)comm->out + part->at, part->len, part->stream));
    follow(op->stream, part->stream, comm->events[1]);
  }
  for (int d = 0; d < op->ndowns; d++) follow(op->downs[d].stream, op->stream, comm->events[2]);
  comm->last = op->stream;
  comm->has_last |= !captures;
  if (is_broken("sync") && !captures) CU(cuStreamSynchronize(op->stream));
  if (is_broken("create")) CU(cuEventCreate(&comm->events[0], 2));
}

/* Says that a rank has put its first part; the round that ends when all ranks of this process have. */
static int arrive(struct local *local)
{
  pthread_mutex_lock(&mutex);
  int round = local->round;
  if (++local->arrived == local->count) {
    local->arrived = 0;
    local->round++;
    pthread_cond_broadcast(&met);
  }
  pthread_mutex_unlock(&mutex);
  return round;
}

static void wait_round(const struct local *local, int round)
{
  pthread_mutex_lock(&mutex);
  while (local->round == round) pthread_cond_wait(&met, &mutex);
  pthread_mutex_unlock(&mutex);
}

/* The ops of a group that are the first ones of their communicators. */
static int firsts_take(struct op **firsts)
{
  int n = 0, left = 0;
  for (int g = 0; g < ngroup; g++) {
    int f = 0;
    while (f < n && firsts[f]->comm != group[g]->comm) f++;
    if (f == n) firsts[n++] = group[g];
    else group[left++] = group[g];
  }
  ngroup = left;
  return n;
}

static void put(struct op **ops, int count)
{
  uint32_t numbers[RANKS];
  int rounds[RANKS];
  void *context;
  for (int o = 0; o < count; o++) {
    CU(cuCtxPushCurrent_v2(ops[o]->comm->context));
    down(ops[o], &numbers[o]);
    CU(cuCtxPopCurrent_v2(&context));
  }
  for (int o = 0; o < count; o++) rounds[o] = arrive(ops[o]->comm->local);
  for (int o = 0; o < count; o++) wait_round(ops[o]->comm->local, rounds[o]);
  for (int o = 0; o < count; o++) {
    CU(cuCtxPushCurrent_v2(ops[o]->comm->context));
    up(ops[o], numbers[o]);
    CU(cuCtxPopCurrent_v2(&context));
  }
}

static void flush(void)
{
  struct op *firsts[RANKS];
  while (ngroup) put(firsts, firsts_take(firsts));
}

EXPORT int ncclGroupStart(void)
{
  depth++;
  return ncclSuccess;
}

EXPORT int ncclGroupEnd(void)
{
  if (--depth == 0) flush();
  return ncclSuccess;
}

/* ---- calls ---- */

static struct op *op_new(ncclComm_t comm, enum kind kind, void *stream)
{
  struct op *op = calloc(1, sizeof *op);
  if (!op) ok(-1, "calloc");
  op->kind = kind;
  op->comm = comm;
  op->stream = stream;
  group[ngroup++] = op;
  return op;
}

static void part_add(struct part *list, int *count, const void *pointer, size_t at, size_t len, void *stream)
{
  if (len) list[(*count)++] = (struct part){(uintptr_t)pointer, at, len, stream, 0};
}

/* Puts a collective of which this rank gives and takes so many bytes. */
static int collective(struct op *op, const void *in, size_t in_count, void *out, size_t out_count)
{
  size_t size = value_size(op->type);
  part_add(op->downs, &op->ndowns, in, 0, in_count * size, op->stream);
  part_add(op->ups, &op->nups, out, 0, out_count * size, op->stream);
  if (op->op >= 5) {
    op->is_scaled = 1;
    part_add(op->downs, &op->ndowns, (void *)(uintptr_t)scalars[op->op - 5], SCALAR_AT, 8, op->stream);
    op->op = ncclSum;
  }
  if (depth == 0) flush();
  return ncclSuccess;
}

#define COLLECTIVE(kind_, root_, op_, in_count, out_count)                    \
  do {                                                                        \
    struct op *made = op_new(comm, kind_, stream);                            \
    made->type = type;                                                        \
    made->op = op_;                                                           \
    made->root = root_;                                                       \
    made->count = count;                                                      \
    return collective(made, in, in_count, out, out_count);                    \
  } while (0)
#define ALL (count * (size_t)comm->nranks)

EXPORT int ncclAllReduce(const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, void *stream)
{
  COLLECTIVE(ALL_REDUCE, 0, op, count, count);
}

EXPORT int ncclReduce(const void *in, void *out, size_t count, int type, int op, int root, ncclComm_t comm,
                      void *stream)
{
  COLLECTIVE(REDUCE, root, op, count, comm->rank == root ? count : 0);
}

EXPORT int ncclBroadcast(const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
  COLLECTIVE(BROADCAST, root, 0, comm->rank == root ? count : 0, count);
}

EXPORT int ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

EXPORT int ncclAllGather(const void *in, void *out, size_t count, int type, ncclComm_t comm, void *stream)
{
  COLLECTIVE(ALL_GATHER, 0, 0, count, ALL);
}

EXPORT int ncclReduceScatter(const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, void *stream)
{
  COLLECTIVE(REDUCE_SCATTER, 0, op, ALL, count);
}

EXPORT int ncclAlltoAll(const void *in, void *out, size_t count, int type, ncclComm_t comm, void *stream)
{
  COLLECTIVE(ALL_TO_ALL, 0, 0, ALL, ALL);
}

EXPORT int ncclGather(const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
  COLLECTIVE(GATHER, root, 0, count, comm->rank == root ? ALL : 0);
}

EXPORT int ncclScatter(const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
  COLLECTIVE(SCATTER, root, 0, comm->rank == root ? ALL : 0, count);
}

/* The messages of a group of one communicator are one op. Its sends lie in the slot by peer. */
static struct op *messages(ncclComm_t comm, void *stream)
{
  for (int g = ngroup - 1; g >= 0; g--)
    if (group[g]->comm == comm) return group[g]->kind == MESSAGES ? group[g] : op_new(comm, MESSAGES, stream);
  return op_new(comm, MESSAGES, stream);
}

EXPORT int ncclSend(const void *in, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
  struct op *op = messages(comm, stream);
  size_t len = count * value_size(type);
  int d = op->ndowns++;
  for (; d > 0 && op->downs[d - 1].peer > peer; d--) op->downs[d] = op->downs[d - 1];
  size_t at = d ? op->downs[d - 1].at + op->downs[d - 1].len : 0;
  op->downs[d] = (struct part){(uintptr_t)in, at, len, stream, peer};
  for (int k = d + 1; k < op->ndowns; k++) op->downs[k].at += len;
  return ncclSuccess;
}

EXPORT int ncclRecv(void *out, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
  struct op *op = messages(comm, stream);
  size_t at = op->nups ? op->ups[op->nups - 1].at + op->ups[op->nups - 1].len : 0;
  op->ups[op->nups++] = (struct part){(uintptr_t)out, at, count * value_size(type), stream, peer};
  return ncclSuccess;
}

/* The scalar is read when an all-reduce with it comes to its turn on the stream. */
EXPORT int ncclRedOpCreatePreMulSum(int *op, void *scalar, int type, int residence, ncclComm_t comm)
{
  static int tickets;
  (void)type, (void)residence, (void)comm;
  int ticket = __atomic_fetch_add(&tickets, 1, __ATOMIC_RELAXED) % TICKETS;
  scalars[ticket] = (uintptr_t)scalar;
  *op = 5 + ticket;
  return ncclSuccess;
}

EXPORT int ncclRedOpDestroy(int op, ncclComm_t comm)
{
  (void)op, (void)comm;
  return ncclSuccess;
}
