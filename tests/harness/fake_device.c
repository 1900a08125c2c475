/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_device.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define ARENA ((size_t)1 << 30) /* address space; pages come when they are written */
#define PAGE 4096u
#define REGIONS 256
#define TICKETS 256
#define SOURCES 1024 /* most of one reduction */
#define LONGEST_WAIT 9 /* polls of the device */
#define JUNK 0xdb

struct region {
  size_t at, len;
  size_t room; /* len and what is kept free behind it; 0: not in use */
};

struct span {
  const void *at;
  size_t len;
};

struct work {
  tt_ticket ticket; /* 0: free */
  uint64_t due;     /* the device's poll at which it ends */
  int is_reduce, redop, type, nsrc;
  void *dst;
  const void *sources[SOURCES];
  size_t len, count; /* len: bytes of each source, and of what is written */
  struct tt_reduce_arg arg;
  int *overflow;
};

struct fake {
  struct tt_device device; /* first: the core's pointer is ours */
  pthread_mutex_t mutex;
  char *shown;  /* what pointers point into: no access */
  char *hidden; /* the same memory, for the device itself */
  uint64_t random, polls;
  int hangs;
  tt_ticket last;
  struct fake_device_counts counts;
  struct region regions[REGIONS];
  struct work work[TICKETS];
};

static struct fake *fake_of(const struct tt_device *device)
{
  return (struct fake *)(uintptr_t)device;
}

static uint64_t draw(struct fake *fake, uint64_t below)
{
  fake->random = fake->random * 6364136223846793005u + 1442695040888963407u;
  return (fake->random >> 33) % below;
}

static int inside(const struct fake *fake, const void *pointer)
{
  uintptr_t p = (uintptr_t)pointer, begin = (uintptr_t)fake->shown;
  return p >= begin && p - begin < ARENA;
}

/* Where the device itself reaches a pointer of the core. */
static void *reach(const struct fake *fake, const void *pointer)
{
  if (!inside(fake, pointer)) return (void *)(uintptr_t)pointer;
  return fake->hidden + ((const char *)pointer - fake->shown);
}

static tuttiResult_t breach(struct fake *fake, const char *what)
{
  fake->counts.breaches++;
  return tt_fail(tuttiInternalError, "fake device: %s", what);
}

static int fake_owns(const struct tt_device *device, const void *pointer)
{
  return inside(fake_of(device), pointer);
}

/* The first free place of `room` bytes; ARENA if there is none. */
static size_t place_find(const struct fake *fake, size_t room)
{
  size_t at = 0;
  for (int i = 0; i < REGIONS; i++) {
    const struct region *r = &fake->regions[i];
    if (r->room == 0 || r->at >= at + room || r->at + r->room <= at) continue;
    at = r->at + r->room;
    i = -1;
  }
  return at + room <= ARENA ? at : ARENA;
}

static void *fake_alloc(const struct tt_device *device, size_t len)
{
  struct fake *fake = fake_of(device);
  void *pointer = NULL;
  int slot = 0;
  if (len > ARENA / 2) return NULL;
  size_t room = (len + PAGE) / PAGE * PAGE;
  pthread_mutex_lock(&fake->mutex);
  size_t at = place_find(fake, room);
  while (slot < REGIONS && fake->regions[slot].room) slot++;
  if (slot < REGIONS && at < ARENA) {
    fake->regions[slot] = (struct region){at, len, room};
    memset(fake->hidden + at, JUNK, len);
    fake->counts.allocated++;
    pointer = fake->shown + at;
  }
  pthread_mutex_unlock(&fake->mutex);
  return pointer;
}

static void fake_free(const struct tt_device *device, void *pointer)
{
  struct fake *fake = fake_of(device);
  if (!pointer) return;
  pthread_mutex_lock(&fake->mutex);
  int slot = 0;
  while (slot < REGIONS && !(fake->regions[slot].room &&
                             fake->shown + fake->regions[slot].at == (char *)pointer))
    slot++;
  if (slot < REGIONS) {
    memset(fake->hidden + fake->regions[slot].at, JUNK, fake->regions[slot].len);
    fake->regions[slot].room = 0;
    fake->counts.allocated--;
  } else {
    breach(fake, "free of what is not allocated");
  }
  pthread_mutex_unlock(&fake->mutex);
}

/* Host memory, or within one allocation. */
static int is_valid(const struct fake *fake, struct span span)
{
  if (!inside(fake, span.at)) return 1;
  size_t at = (size_t)((const char *)span.at - fake->shown);
  for (int i = 0; i < REGIONS; i++) {
    const struct region *r = &fake->regions[i];
    if (r->room && at >= r->at && at + span.len <= r->at + r->len) return 1;
  }
  return 0;
}

static int overlap(struct span a, struct span b)
{
  uintptr_t x = (uintptr_t)a.at, y = (uintptr_t)b.at;
  return a.len && b.len && x < y + b.len && y < x + a.len;
}

/* What the work reads and writes. Wide elements are fp32, twice as long as the others. */
static struct span source_of(const struct work *work, int k)
{
  return (struct span){work->sources[k], work->len << (k == work->arg.wide)};
}

static struct span dst_of(const struct work *work)
{
  return (struct span){work->dst, work->len << work->arg.dst_wide};
}

static struct span also_of(const struct work *work)
{
  return (struct span){work->arg.also, work->arg.also ? work->len : 0};
}

static int writes(const struct work *work, struct span span)
{
  return overlap(dst_of(work), span) || overlap(also_of(work), span);
}

/* True if one of the two writes what the other reads or writes. */
static int in_conflict(const struct work *a, const struct work *b)
{
  int found = writes(a, dst_of(b)) || writes(a, also_of(b));
  for (int k = 0; k < a->nsrc; k++) found |= writes(b, source_of(a, k));
  for (int k = 0; k < b->nsrc; k++) found |= writes(a, source_of(b, k));
  return found;
}

/* dst or the second one, and a source: the same elements as wide, or nothing in common. */
static int spoils(struct span to, struct span source)
{
  return overlap(to, source) && (to.at != source.at || to.len != source.len);
}

static const char *arg_fault_of(const struct work *work)
{
  const struct tt_reduce_arg *arg = &work->arg;
  int may_be_wide = work->type == tuttiFloat16 || work->type == tuttiBfloat16;
  if (arg->scaled < -1 || arg->scaled >= work->nsrc) return "no such source to scale";
  if (arg->scaled >= 0 && work->redop != tuttiAvg && work->redop != TT_PREMUL_SUM)
    return "an operation that cannot scale";
  if (arg->wide < -1 || arg->wide >= work->nsrc) return "no such source to be wide";
  if ((arg->wide >= 0 || arg->dst_wide) && !may_be_wide) return "wide elements of a type that has none";
  if (arg->dst_wide != 0 && arg->dst_wide != 1) return "dst_wide is neither 0 nor 1";
  return NULL;
}

static const char *fault_of(const struct fake *fake, const struct work *work)
{
  struct span dst = dst_of(work), also = also_of(work);
  if (work->nsrc < 1) return "no or too many sources";
  if (work->is_reduce && !tt_reduce_kernel(work->redop, work->type)) return "no such reduction";
  const char *fault = work->is_reduce ? arg_fault_of(work) : NULL;
  if (fault) return fault;
  if (!is_valid(fake, dst) || !is_valid(fake, also)) return "dst is outside of what was allocated";
  if (overlap(dst, also)) return "the two destinations overlap";
  if (inside(fake, work->overflow)) return "overflow is not host memory";
  for (int k = 0; k < work->nsrc; k++) {
    struct span source = source_of(work, k);
    if (!is_valid(fake, source)) return "a source is outside of what was allocated";
    if (spoils(dst, source) || spoils(also, source)) return "dst overlaps a source";
  }
  for (int i = 0; i < TICKETS; i++)
    if (fake->work[i].ticket && in_conflict(&fake->work[i], work))
      return "work on memory that work in progress uses";
  return NULL;
}

static void perform(const struct fake *fake, const struct work *work)
{
  const void *sources[SOURCES];
  void *dst = reach(fake, work->dst);
  for (int k = 0; k < work->nsrc; k++) sources[k] = reach(fake, work->sources[k]);
  if (work->is_reduce) {
    struct tt_reduce_arg arg = work->arg;
    if (arg.also) arg.also = reach(fake, arg.also);
    tt_reduce_kernel(work->redop, work->type)(dst, sources, work->nsrc, work->count, &arg);
    int type = arg.dst_wide ? tuttiFloat32 : work->type;
    if (work->overflow && !tt_reduce_table()->finite[type](dst, work->count)) *work->overflow = 1;
  } else if (dst != sources[0] && work->len)
    memcpy(dst, sources[0], work->len);
}

/* Junk in dst, unless the work reads it: a result of before must not look like one. */
static void spoil(const struct fake *fake, const struct work *work)
{
  const struct span written[2] = {dst_of(work), also_of(work)};
  for (int w = 0; w < 2; w++) {
    int reads = 0;
    for (int k = 0; k < work->nsrc; k++) reads |= work->sources[k] == written[w].at;
    if (!reads && written[w].len) memset(reach(fake, written[w].at), JUNK, written[w].len);
  }
}

static void enqueue(struct fake *fake, struct work *slot, const struct work *work)
{
  *slot = *work;
  slot->ticket = ++fake->last;
  slot->due = fake->polls + 1 + draw(fake, LONGEST_WAIT);
  spoil(fake, work);
  if (++fake->counts.outstanding > fake->counts.most) fake->counts.most = fake->counts.outstanding;
}

static tuttiResult_t start(struct fake *fake, const struct work *work, tt_ticket *ticket)
{
  pthread_mutex_lock(&fake->mutex);
  const char *fault = fault_of(fake, work);
  int slot = 0;
  while (slot < TICKETS && fake->work[slot].ticket) slot++;
  if (!fault && slot == TICKETS) fault = "too much work at a time";
  tuttiResult_t result = fault ? breach(fake, fault) : tuttiSuccess;
  if (!fault) {
    fake->counts.started++;
    *ticket = 0;
    if (draw(fake, 8) == 0 && !fake->hangs) {
      fake->counts.at_once++;
      perform(fake, work);
    } else {
      enqueue(fake, &fake->work[slot], work);
      *ticket = fake->last;
    }
  }
  pthread_mutex_unlock(&fake->mutex);
  return result;
}

static tuttiResult_t fake_copy(const struct tt_device *device, void *dst, const void *src,
                               size_t len, tt_ticket *ticket)
{
  const struct work work = {.dst = dst, .sources = {src}, .nsrc = 1, .len = len, .arg = tt_reduce_plainly};
  return start(fake_of(device), &work, ticket);
}

static tuttiResult_t fake_reduce(const struct tt_device *device, const struct tt_reduction *what,
                                 tt_ticket *ticket)
{
  struct work work = {.is_reduce = 1, .redop = what->redop, .type = what->type, .dst = what->dst,
                      .count = what->count, .len = what->count * tt_type_size(what->type),
                      .arg = what->arg ? *what->arg : tt_reduce_plainly, .overflow = what->overflow};
  if (what->nsrc >= 1 && what->nsrc <= SOURCES) work.nsrc = what->nsrc;
  for (int k = 0; k < work.nsrc; k++) work.sources[k] = what->sources[k];
  return start(fake_of(device), &work, ticket);
}

static void finish(struct fake *fake, struct work *work)
{
  perform(fake, work);
  for (int i = 0; i < TICKETS; i++)
    if (fake->work[i].ticket && fake->work[i].ticket < work->ticket) {
      fake->counts.overtaken++;
      break;
    }
  work->ticket = 0;
  fake->counts.outstanding--;
}

static tuttiResult_t fake_poll(const struct tt_device *device, tt_ticket ticket)
{
  struct fake *fake = fake_of(device);
  tuttiResult_t result = tuttiSuccess;
  if (ticket == 0) return tuttiSuccess;
  pthread_mutex_lock(&fake->mutex);
  int slot = 0;
  while (slot < TICKETS && fake->work[slot].ticket != ticket) slot++;
  fake->polls++;
  if (slot == TICKETS) {
    result = breach(fake, "poll of a ticket that is not in progress");
  } else if (fake->hangs || fake->polls < fake->work[slot].due) {
    fake->counts.waits++;
    result = tuttiInProgress;
  } else {
    finish(fake, &fake->work[slot]);
  }
  pthread_mutex_unlock(&fake->mutex);
  return result;
}

/* The two views of one piece of memory. */
static int map(struct fake *fake)
{
  int fd = memfd_create("fake_device", MFD_CLOEXEC);
  if (fd < 0) return 0;
  int ok = ftruncate(fd, (off_t)ARENA) == 0;
  void *shown = mmap(NULL, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  void *hidden = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (shown != MAP_FAILED) fake->shown = shown;
  if (hidden != MAP_FAILED) fake->hidden = hidden;
  return ok && fake->shown && fake->hidden;
}

static void discard(struct fake *fake)
{
  if (fake->shown) munmap(fake->shown, ARENA);
  if (fake->hidden) munmap(fake->hidden, ARENA);
  pthread_mutex_destroy(&fake->mutex);
  free(fake);
}

const struct tt_device *fake_device_create(uint64_t seed)
{
  struct fake *fake = calloc(1, sizeof *fake);
  if (!fake) return NULL;
  fake->device = (struct tt_device){.name = "fake", .owns = fake_owns, .alloc = fake_alloc,
                                    .free = fake_free, .copy = fake_copy, .reduce = fake_reduce,
                                    .poll = fake_poll};
  fake->random = seed;
  pthread_mutex_init(&fake->mutex, NULL);
  if (map(fake) && tt_device_register(&fake->device) == tuttiSuccess) return &fake->device;
  discard(fake);
  return NULL;
}

struct fake_device_counts fake_device_destroy(const struct tt_device *device)
{
  struct fake_device_counts counts = {0};
  if (!device) return counts;
  counts = fake_device_count(device);
  tt_device_unregister(device);
  discard(fake_of(device));
  return counts;
}

int fake_device_end(const struct tt_device *device)
{
  struct fake_device_counts counts = fake_device_destroy(device);
  if (counts.started > 0 && !counts.breaches && !counts.outstanding && !counts.allocated) return 1;
  fprintf(stderr, "device: %ld started, %ld breaches, %ld outstanding, %ld allocated\n", (long)counts.started,
          (long)counts.breaches, (long)counts.outstanding, (long)counts.allocated);
  return 0;
}

struct fake_device_counts fake_device_count(const struct tt_device *device)
{
  struct fake *fake = fake_of(device);
  pthread_mutex_lock(&fake->mutex);
  struct fake_device_counts counts = fake->counts;
  pthread_mutex_unlock(&fake->mutex);
  return counts;
}

void fake_device_hang(const struct tt_device *device, int hangs)
{
  struct fake *fake = fake_of(device);
  pthread_mutex_lock(&fake->mutex);
  fake->hangs = hangs;
  pthread_mutex_unlock(&fake->mutex);
}

void fake_device_write(const struct tt_device *device, void *dst, const void *host, size_t len)
{
  struct fake *fake = fake_of(device);
  pthread_mutex_lock(&fake->mutex);
  memcpy(reach(fake, dst), host, len);
  pthread_mutex_unlock(&fake->mutex);
}

void fake_device_read(const struct tt_device *device, void *host, const void *src, size_t len)
{
  struct fake *fake = fake_of(device);
  pthread_mutex_lock(&fake->mutex);
  memcpy(host, reach(fake, src), len);
  pthread_mutex_unlock(&fake->mutex);
}
