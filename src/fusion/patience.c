/* SPDX-License-Identifier: BSD-3-Clause */
/* Waits of a fusion with servers: those that last too long, which the engine itself measures, as nobody is in a
 * collective call; and its sleep. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fusion/served_private.h"

#define NAMED 8            /* ranks */
#define RANKS_BYTES 128
#define SENTENCE_BYTES 256
#define LINKLESS_NS 1000000 /* longest sleep where links cannot end it */

/* ---- who is waited for ---- */

typedef int (*is_late_t)(const struct tuttiFusion *fusion, int rank);

/* As far as this rank's own server has seen. */
static int has_not_contributed(const struct tuttiFusion *fusion, int rank)
{
  const struct served *served = fusion->served;
  const struct tt_server *server = served->shards.shares[fusion->config.rank].server;
  if (served->left[rank] || !server) return 0;
  uint64_t steps = tt_server_steps(server, rank);
  if (served->kind == TT_SERVER_SYNCHRONOUS) return steps <= served->member.version;
  uint64_t staleness = (uint64_t)fusion->config.serving.staleness;
  return served->kind == TT_SERVER_SSP && steps + staleness <= tt_served_step(fusion);
}

static int has_not_answered(const struct tuttiFusion *fusion, int rank)
{
  int owes = 0;
  for (int share = 0; share < fusion->config.nranks && !fusion->served->shards.by_decision; share++)
    owes |= fusion->served->member.owed[share] > 0 && tt_shards_server(fusion, share) == rank;
  return owes;
}

static int has_not_come(const struct tuttiFusion *fusion, int rank)
{
  return !tt_set_has(fusion->served->deaths.made, rank) && !tt_comm_is_lost(fusion->config.channel[0], rank);
}

static int has_not_left(const struct tuttiFusion *fusion, int rank)
{
  return !fusion->served->left[rank];
}

static int has_not_taken(const struct tuttiFusion *fusion, int rank)
{
  return tt_packets_are_queued(&fusion->served->mailbox, rank);
}

/* Writes "rank 3" or "ranks 1, 2"; returns how many they are. */
static int ranks_write(const struct tuttiFusion *fusion, is_late_t is_late, char text[RANKS_BYTES])
{
  char names[RANKS_BYTES - 8] = "";
  size_t len = 0;
  int n = 0;
  for (int rank = 0; rank < fusion->config.nranks; rank++) {
    if (!is_late(fusion, rank) || n++ > NAMED) continue;
    const char *before = n > 1 ? ", " : "";
    if (n > NAMED) len += (size_t)snprintf(names + len, sizeof names - len, ", ...");
    else len += (size_t)snprintf(names + len, sizeof names - len, "%s%d", before, rank);
  }
  snprintf(text, RANKS_BYTES, "%s %s", n == 1 ? "rank" : "ranks", names);
  return n;
}

static void step_write(const struct tuttiFusion *fusion, char text[SENTENCE_BYTES])
{
  const struct config *config = &fusion->config;
  char ranks[RANKS_BYTES];
  const char *what = fusion->served->kind == TT_SERVER_SSP ? "too many steps behind:" : "no contribution of";
  if (!ranks_write(fusion, has_not_contributed, ranks)) {
    what = "no answer of";
    if (!ranks_write(fusion, has_not_answered, ranks)) snprintf(ranks, sizeof ranks, "other ranks");
  }
  snprintf(text, SENTENCE_BYTES, "for weights of step %llu (quorum %d, staleness %d): %s %s",
           (unsigned long long)tt_served_step(fusion) + 1, config->serving.quorum, config->serving.staleness, what,
           ranks);
}

static void others_write(const struct tuttiFusion *fusion, char text[SENTENCE_BYTES])
{
  char ranks[RANKS_BYTES];
  if (!fusion->served->deaths.is_made) {
    ranks_write(fusion, has_not_come, ranks);
    snprintf(text, SENTENCE_BYTES, "in the creation of a fusion for %s", ranks);
    return;
  }
  int n = ranks_write(fusion, has_not_left, ranks);
  const char *what = n ? "not destroyed" : "messages not taken";
  if (!n) ranks_write(fusion, has_not_taken, ranks);
  snprintf(text, SENTENCE_BYTES, "in %s without a sign of others: %s by %s",
           fusion->served->heir ? "tuttiFusionMove" : "tuttiFusionDestroy", what, ranks);
}

/* ---- for how long ---- */

tuttiResult_t tt_patience_look(struct tuttiFusion *fusion, int moved)
{
  const struct config *config = &fusion->config;
  const struct served *served = fusion->served;
  struct patience *patience = &fusion->served->patience;
  int in_step = served->member.nsent == config->n || served->member.is_held_back;
  int for_others = !served->deaths.is_made || served->is_leaving;
  char text[SENTENCE_BYTES];
  if (!in_step && (moved || !for_others)) {
    patience->since_ns = 0;
    if (!for_others) patience->is_warned = 0;
    return tuttiSuccess;
  }
  uint64_t now_ns = tt_now_ns();
  if (!patience->since_ns) patience->since_ns = now_ns;
  uint64_t ns = now_ns - patience->since_ns;
  int is_error = config->timeout_ns && ns > config->timeout_ns;
  if (!is_error && (patience->is_warned || ns < config->warn_ns)) return tuttiSuccess;
  if (in_step) step_write(fusion, text);
  else others_write(fusion, text);
  if (is_error)
    return tt_fail(tuttiInvalidUsage, "rank %d has waited %.1f s (TUTTI_TIMEOUT_MS) %s", config->rank,
                   (double)ns / 1e9, text);
  tt_log(TT_LOG_WARN, "rank %d has waited %.1f s %s", config->rank, (double)ns / 1e9, text);
  patience->is_warned = 1;
  return tuttiSuccess;
}

/* ---- sleep ---- */

tuttiResult_t tt_served_wake_make(struct tuttiFusion *fusion)
{
  int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0)
    return tt_fail(tuttiSystemError, "no descriptor for a fusion with servers: %s (see `ulimit -n`)", strerror(errno));
  fusion->served->wake = fd;
  return tuttiSuccess;
}

void tt_served_wake(struct tuttiFusion *fusion)
{
  uint64_t one = 1;
  if (!fusion->shared.sleep.is_asleep) return;
  fusion->shared.sleep.is_asleep = 0;
  ssize_t n = write(fusion->served->wake, &one, sizeof one);
  (void)n; /* the sleep is short */
}

/* Links that are not open yet have no descriptors. */
static enum tt_slept rest(const struct tuttiFusion *fusion, uint64_t ns)
{
  struct pollfd wake = {.fd = fusion->served->wake, .events = POLLIN};
  struct timespec most = {0, ns < LINKLESS_NS ? (long)ns : LINKLESS_NS};
  enum tt_slept slept = tt_messages_rest(fusion->config.channel[0], wake.fd, ns);
  if (slept != TT_SLEPT_NOT) return slept;
  return ppoll(&wake, 1, &most, NULL) > 0 ? TT_SLEPT_WOKEN : TT_SLEPT_LONG;
}

enum tt_slept tt_served_sleep(void *context, uint64_t ns)
{
  struct tuttiFusion *fusion = context;
  struct shared *shared = &fusion->shared;
  uint64_t count;
  pthread_mutex_lock(&shared->mutex);
  int has_news = fusion->engine.seen.pushes != shared->pushes;
  shared->sleep.is_asleep = !has_news;
  pthread_mutex_unlock(&shared->mutex);
  if (has_news) return TT_SLEPT_WOKEN;
  enum tt_slept slept = rest(fusion, ns);
  pthread_mutex_lock(&shared->mutex);
  int was_woken = !shared->sleep.is_asleep;
  shared->sleep.is_asleep = 0;
  pthread_mutex_unlock(&shared->mutex);
  ssize_t n = was_woken ? read(fusion->served->wake, &count, sizeof count) : 0;
  (void)n; /* who ends the fusion wakes it otherwise */
  return slept;
}
