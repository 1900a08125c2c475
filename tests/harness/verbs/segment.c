/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared segment, its settings and counts, and what tests do with them. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define MAGIC 0x66763031

struct segment *fake_segment;
static struct fake_verbs functions;

static void defaults(void)
{
#define X(name, value) SETTINGS.name = value;
  FAKE_SETTINGS(X)
#undef X
  fake_segment->fail_verb[0] = fake_segment->failed[0] = 0;
  fake_segment->random = fake_segment->seeded = 0;
}

static void set(const char *name, long value)
{
#define X(known, unused) \
  if (strcmp(name, #known) == 0) { SETTINGS.known = value; return; }
  FAKE_SETTINGS(X)
#undef X
  fprintf(stderr, "FAKE_VERBS: there is no setting \"%s\"\n", name);
  abort();
}

static void from_environment(void)
{
  char text[1000], *rest = NULL;
  const char *given = getenv("FAKE_VERBS");
  if (!given) return;
  snprintf(text, sizeof text, "%s", given);
  for (char *item = strtok_r(text, ",", &rest); item; item = strtok_r(NULL, ",", &rest)) {
    char *equal = strchr(item, '=');
    if (equal) *equal = 0;
    set(item, equal ? strtol(equal + 1, NULL, 0) : 1);
  }
}

static void begin(void)
{
  pthread_mutexattr_t attr;
  pthread_mutexattr_init(&attr);
  pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&fake_segment->mutex, &attr);
  pthread_mutexattr_destroy(&attr);
  defaults();
  from_environment();
  fake_segment->magic = MAGIC;
}

void fake_lock(void)
{
  if (pthread_mutex_lock(&fake_segment->mutex) == EOWNERDEAD) pthread_mutex_consistent(&fake_segment->mutex);
}

void fake_unlock(void)
{
  pthread_mutex_unlock(&fake_segment->mutex);
}

void fake_poke(void)
{
  atomic_fetch_add(&fake_segment->ticks, 1);
  syscall(SYS_futex, &fake_segment->ticks, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint64_t fake_now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

uint64_t fake_draw(uint64_t n)
{
  uint64_t seed = (uint64_t)SETTINGS.seed;
  if (seed == 0 || n == 0) return 0;
  if (fake_segment->seeded != seed) fake_segment->random = fake_segment->seeded = seed;
  fake_segment->random = fake_segment->random * 6364136223846793005u + 1442695040888963407u;
  return (fake_segment->random >> 33) % n;
}

int fake_is_free(const struct owner *owner)
{
  return !owner->pid || (kill(owner->pid, 0) != 0 && errno == ESRCH);
}

void fake_own(struct owner *owner, void *object)
{
  owner->pid = getpid();
  owner->generation++;
  owner->object = object;
}

void fake_breach(const char *format, ...)
{
  va_list args;
  COUNTS.breaches++;
  va_start(args, format);
  fputs("fake verbs: ", stderr);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
  va_end(args);
  if (SETTINGS.fatal) abort();
}

/* The call whose turn it is; locked. */
static int is_chosen(const char *verb)
{
  if (fake_segment->fail_verb[0] && strcmp(fake_segment->fail_verb, verb) != 0) return 0;
  if (SETTINGS.fail_at <= 0 || --SETTINGS.fail_at > 0) return 0;
  snprintf(fake_segment->failed, sizeof fake_segment->failed, "%s", verb);
  return 1;
}

static int fails(const char *verb, int is_removed)
{
  fake_lock();
  COUNTS.calls++;
  int code = is_chosen(verb) ? (int)SETTINGS.fail_errno : is_removed ? EIO : 0;
  fake_unlock();
  if (code) errno = code;
  return code;
}

int fake_fails(const char *verb)
{
  return fails(verb, SETTINGS.removed != 0);
}

int fake_fails_late(const char *verb)
{
  return fails(verb, 0);
}

/* ---- for tests ---- */

/* Who was killed had no time to give back what he had. */
static void forget_the_dead(void)
{
  for (int c = 0; c < CONTEXTS; c++)
    if (!fake_is_free(&fake_segment->contexts[c].owner)) return;
  memset(&COUNTS, 0, sizeof COUNTS);
}

static void reset(void)
{
  fake_lock();
  defaults();
  forget_the_dead();
  COUNTS.calls = COUNTS.breaches = COUNTS.copied = COUNTS.longest = COUNTS.overtaken = COUNTS.not_ready = 0;
  COUNTS.sends = COUNTS.receives = COUNTS.inlines = COUNTS.polls = COUNTS.notified = 0;
  fake_unlock();
}

static struct fake_verbs_counts count(void)
{
  fake_lock();
  struct fake_verbs_counts counts = COUNTS;
  fake_unlock();
  return counts;
}

static void fail(const char *verb, long n, int code)
{
  fake_lock();
  snprintf(fake_segment->fail_verb, sizeof fake_segment->fail_verb, "%s", verb ? verb : "");
  fake_segment->failed[0] = 0;
  SETTINGS.fail_at = n;
  SETTINGS.fail_errno = code;
  fake_unlock();
}

static const char *failed(void)
{
  return fake_segment->failed;
}

static void event_for_all(enum ibv_event_type type)
{
  for (int c = 0; c < CONTEXTS; c++)
    if (!fake_is_free(&fake_segment->contexts[c].owner)) fake_event(c, type, 1);
}

static void port(int is_up)
{
  fake_lock();
  SETTINGS.port_down = !is_up;
  event_for_all(is_up ? IBV_EVENT_PORT_ACTIVE : IBV_EVENT_PORT_ERR);
  fake_unlock();
  fake_poke();
}

static void remove_device(void)
{
  fake_lock();
  SETTINGS.removed = 1;
  event_for_all(IBV_EVENT_DEVICE_FATAL);
  fake_unlock();
  fake_poke();
}

static int is_clean(void)
{
  struct fake_verbs_counts n = count();
  if (!n.contexts && !n.pds && !n.regions && !n.channels && !n.cqs && !n.qps && !n.ids && !n.id_channels && !n.breaches)
    return 1;
  fprintf(stderr,
          "left behind: %ld contexts, %ld protection domains, %ld regions, %ld channels, %ld completion queues, %ld "
          "queue pairs, %ld identifiers, %ld event channels; %ld breaches\n",
          n.contexts, n.pds, n.regions, n.channels, n.cqs, n.qps, n.ids, n.id_channels, n.breaches);
  return 0;
}

const struct fake_verbs *fake_verbs(void)
{
  return &functions;
}

static int has_users(void)
{
  for (int u = 0; u < USERS; u++)
    if (fake_segment->users[u] && kill(fake_segment->users[u], 0) == 0) return 1;
  return 0;
}

static void add_user(void)
{
  for (int u = 0; u < USERS; u++)
    if (!fake_segment->users[u] || kill(fake_segment->users[u], 0) != 0) {
      fake_segment->users[u] = getpid();
      return;
    }
}

/* Loaded before anybody forks, it is the same for all. */
__attribute__((constructor)) static void map(void)
{
  const char *path = getenv("FAKE_VERBS_SEGMENT");
  int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
  int flags = fd >= 0 ? MAP_SHARED : MAP_SHARED | MAP_ANONYMOUS;
  if (path && (fd < 0 || flock(fd, LOCK_EX) != 0 || ftruncate(fd, sizeof *fake_segment) != 0)) abort();
  fake_segment = mmap(NULL, sizeof *fake_segment, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  if (fake_segment == MAP_FAILED) abort();
  if (path && !has_users()) memset(fake_segment, 0, offsetof(struct segment, contexts));
  if (fake_segment->magic != MAGIC) begin();
  if (path) add_user();
  if (path) flock(fd, LOCK_UN); /* the mapping keeps the file open, and so would the lock be kept */
  if (fd >= 0) close(fd);
  functions = (struct fake_verbs){&SETTINGS, reset, count, fail, failed, port, remove_device, is_clean};
}
