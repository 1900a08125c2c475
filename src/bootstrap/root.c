/* SPDX-License-Identifier: BSD-3-Clause */
/* The root's life. It opens a listener and waits; time runs from its first client. It closes the listener when all
 * ranks have said bye. After a failure it closes it when all ranks have heard of the failure, or when the ranks that
 * never came have had one more start-up time to come and hear it (with a derived id at once, because the parent's watch
 * tells them). Clients that are there by mistake or for the next communicator get their answer; then the root frees
 * itself. A root that no rank ever dials has no timer, costs a few hundred bytes, and lives until the process ends. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/root_private.h"

#define LOOKS_PER_TICK 16 /* reads of /proc in 20 ms: a bounded share of one core */
#define EXIT_WAIT_MS 100  /* a process that exits does not wait longer */
#define FIRST_LOG_NS 5000000000u
#define NEXT_LOG_NS 30000000000u
#define SHUT_NS 1000000000u /* for the last clients to receive the reason and leave */

/* Closes the listener: nobody else can join, and the address is free for the next root. */
static void root_shut(struct tt_root *root)
{
  if (root->shut) return;
  root->shut = 1;
  root->over_ns = tt_now_ns() + SHUT_NS;
  for (struct tt_root **at = (struct tt_root **)&tt_process.roots; *at; at = &(*at)->next) {
    if (*at != root) continue;
    *at = root->next;
    break;
  }
  if (root->listener) tt_listener_dismiss(root->listener, root);
  tt_listener_close(root->listener);
  root->listener = NULL;
}

static void root_free(struct tt_root *root)
{
  root_shut(root);
  if (root->ticking) tt_timer_remove(&root->timer);
  for (struct client *client = root->clients; client; client = client->next) tt_client_close(client);
  tt_clients_sweep(root);
  tt_free(root->peer_infos[0]);
  tt_free(root->peer_infos[1]);
  tt_free(root->slots);
  tt_wipe(root, sizeof *root);
  tt_free(root);
  tt_service_release();
}

void tt_root_fail(struct tt_root *root, tuttiResult_t code, const char *format, ...)
{
  if (root->code) return;
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(root->sentence, sizeof root->sentence, format, arguments);
  va_end(arguments);
  root->code = code;
  root->over_ns = tt_now_ns() + root->timeout_ns;
  tt_log(TT_LOG_INFO, "start-up failed: %s", root->sentence); /* the ranks log it as an error */
  for (struct client *client = root->clients; client; client = client->next)
    if (client->has_slot || client->stage != CLIENT_RECORD) tt_client_tell(client, TT_START_FAILURE);
}

static uint32_t unlike_count(const struct tt_root *root)
{
  return (uint32_t)__builtin_popcountll(root->unlike);
}

static int is_complete(const struct tt_root *root)
{
  uint32_t heard = root->left + root->lost + unlike_count(root);
  if (root->code) return root->derived || (root->nranks && heard >= root->least) || tt_now_ns() > root->over_ns;
  return root->nranks && root->left == root->nranks;
}

void tt_root_settle(struct tt_root *root)
{
  tt_clients_sweep(root);
  if (!root->shut && is_complete(root)) root_shut(root);
  if (root->shut && (!root->clients || tt_now_ns() > root->over_ns)) root_free(root);
}

/* ---- missing ranks ---- */

static const char *ended_text(const struct tt_ended *ended, char text[64])
{
  if (WIFSIGNALED(ended->status)) snprintf(text, 64, "was killed by signal %d", WTERMSIG(ended->status));
  else snprintf(text, 64, "ended with status %d", WEXITSTATUS(ended->status));
  return text;
}

/* A process may bring several ranks, but hardly ever those of another process. So if there are at least as many ranks
 * as processes, every process is needed. */
void tt_root_miss(struct tt_root *root)
{
  const struct tt_ended *ended = &root->ended;
  char how[64];
  if (!ended->pid || root->code || root->came == root->nranks || root->nranks < (uint32_t)ended->nprocs) return;
  tt_root_fail(root, tuttiRemoteError, "%s %d (pid %d on %s) %s before it joined the communicator",
               root->nranks == (uint32_t)ended->nprocs ? "rank" : "process", ended->proc, ended->pid,
               root->self.host_name, ended_text(ended, how));
}

/* The text after the names of the missing ranks. */
static const char *ended_note(const struct tt_root *root, char note[128])
{
  char how[64];
  note[0] = 0;
  if (root->ended.pid)
    snprintf(note, 128, "; process %d of %d %s", root->ended.proc, root->ended.nprocs, ended_text(&root->ended, how));
  return note;
}

static void missing_fail(struct tt_root *root)
{
  char ranks[256], note[128], refused[256] = "";
  double seconds = (double)root->timeout_ns / 1e9;
  if (!root->nranks) {
    tt_root_fail(root, tuttiRemoteError, "no rank introduced itself within %g s", seconds);
    return;
  }
  tt_ranks_text(tt_rank_slot_is_in, root, root->nranks, ranks, sizeof ranks);
  if (root->listener) tt_listener_refusals_text(root->listener, &root->refusals, refused, sizeof refused);
  if (root->came < root->nranks)
    tt_root_fail(root, tuttiRemoteError,
                 "%s did not come within %g s%s%s: start %s, or raise TUTTI_INIT_TIMEOUT_MS%s", ranks, seconds,
                 root->twice, ended_note(root, note), root->came + 1 == root->nranks ? "it" : "them", refused);
  else
    tt_root_fail(root, tuttiRemoteError, "%s came but did not finish the start-up within %g s", ranks,
                 seconds);
}

/* Sets the time of the next log line: a warning once, the other lines for users who ask for INFO. */
static void log_next(struct tt_root *root, uint64_t at)
{
  uint64_t late = root->first_ns + root->late_warn_ns;
  root->log_ns = !root->warned && late < at ? late : at;
}

static void missing_log(struct tt_root *root, uint64_t now)
{
  char ranks[256], note[128], refused[256] = "";
  int warns = root->nranks && !root->warned && now - root->first_ns >= root->late_warn_ns;
  enum tt_log_level level = warns ? TT_LOG_WARN : TT_LOG_INFO;
  root->warned |= warns;
  log_next(root, now + NEXT_LOG_NS);
  if (!root->nranks || !tt_log_wants(level)) return;
  tt_ranks_text(tt_rank_slot_is_in, root, root->nranks, ranks, sizeof ranks);
  if (root->listener) tt_listener_refusals_text(root->listener, &root->refusals, refused, sizeof refused);
  tt_log(level, "start-up waits for %s since %llu s%s%s%s", ranks,
         (unsigned long long)((now - root->first_ns) / 1000000000u), root->twice, ended_note(root, note), refused);
}

static void processes_look(struct tt_root *root)
{
  uint32_t looks = root->nranks < LOOKS_PER_TICK ? root->nranks : LOOKS_PER_TICK;
  for (uint32_t i = 0; i < looks && !root->code; i++) {
    struct slot *slot = &root->slots[root->look];
    root->look = (root->look + 1) % root->nranks;
    if (!slot->client || !tt_record_is_dead(&slot->client->record, &root->self)) continue;
    tt_client_drain(slot->client); /* its last frames come first: it may have left in good order */
    if (slot->client) tt_rank_slot_lose(slot->client, "died");
  }
}

static void tick(struct tt_timer *timer)
{
  struct tt_root *root = (struct tt_root *)(void *)timer;
  uint64_t now = tt_now_ns();
  if (!root->code && root->nranks) processes_look(root);
  int wanted = root->came < root->nranks || root->arrived || !root->nranks;
  if (!root->code && wanted && now > root->first_ns + root->timeout_ns) missing_fail(root);
  if (!root->code && wanted && now > root->log_ns) missing_log(root, now);
  tt_root_settle(root);
}

void tt_root_first(struct tt_root *root)
{
  if (root->ticking) return;
  root->ticking = 1;
  root->first_ns = tt_now_ns();
  log_next(root, root->first_ns + FIRST_LOG_NS);
  tt_timer_add(&root->timer);
}

/* ---- opening ------------------------------------------------------------------------------------ */

static int same_address(const struct tt_address *a, const struct tt_address *b)
{
  return a->len == b->len && memcmp(&a->any, &b->any, a->len) == 0;
}

/* Makes room at a fixed address: a failed start-up gives way, one still under way is waited for. */
static int place_is_free(const struct tt_address *where)
{
  for (struct tt_root *root = tt_process.roots; root; root = root->next) {
    if (!root->fixed || !same_address(&root->where, where)) continue;
    if (!root->code) return 0;
    root_shut(root);
    tt_root_settle(root);
    return 1;
  }
  return 1;
}

static struct tt_root *root_make(const struct tt_id *id, const struct tt_address *where,
                                 const struct tt_settings *settings)
{
  struct tt_root *root = tt_alloc(1, sizeof *root);
  if (!root) return NULL;
  if (tt_service_hold() != tuttiSuccess) {
    tt_free(root);
    return NULL;
  }
  root->timer = (struct tt_timer){.period_ns = TT_LOOK_NS, .fire = tick};
  root->where = *where;
  memcpy(root->job, id->credentials.job, sizeof root->job);
  root->nonce = id->nonce;
  root->fixed = (id->flags & TT_ID_FIXED) != 0;
  root->derived = (id->flags & TT_ID_DERIVED) != 0;
  root->timeout_ns = (uint64_t)settings->init_timeout_ms * 1000000u;
  root->late_warn_ns = (uint64_t)settings->late_warn_ms * 1000000u;
  root->unreachable_ms = settings->unreachable_ms;
  tt_record_fill(&root->self);
  root->self.host = tt_host_id(settings->host_id);
  tt_random(root->self.secret, sizeof root->self.secret);
  return root;
}

/* Each rank of a derived id has a key of its own, and says its rank as dst. */
static tuttiResult_t root_admit(struct tt_root *root, const struct tt_id *id, const struct tt_credentials *members,
                                int nmembers)
{
  tuttiResult_t result = tuttiSuccess;
  if (!members) nmembers = 1;
  for (int r = 0; r < nmembers && result == tuttiSuccess; r++)
    result = tt_listener_admit(root->listener, members ? &members[r] : &id->credentials, TT_HELLO_RENDEZVOUS,
                               (uint32_t)r, tt_client_come, root);
  return result;
}

static tuttiResult_t root_open_locked(const struct tt_id *id, const struct tt_credentials *members, int nmembers,
                                      const struct tt_address *where, const struct tt_settings *settings,
                                      struct tt_address *at)
{
  if ((id->flags & TT_ID_FIXED) && !place_is_free(where)) return tuttiInProgress;
  struct tt_root *root = root_make(id, where, settings);
  if (!root) return tt_fail(tuttiSystemError, "no memory or service thread for the start-up's root");
  tuttiResult_t result = tt_listener_open(&root->listener, where);
  if (result == tuttiSuccess) result = root_admit(root, id, members, nmembers);
  if (result != tuttiSuccess) {
    root_free(root);
    return result;
  }
  root->next = tt_process.roots;
  tt_process.roots = root;
  tt_listener_refusals(root->listener, &root->refusals);
  *at = *tt_listener_address(root->listener);
  return tuttiSuccess;
}

tuttiResult_t tt_root_open(const struct tt_id *id, const struct tt_credentials *members, int nmembers,
                           const struct tt_address *where, const struct tt_settings *settings, struct tt_address *at)
{
  tuttiResult_t result = tt_service_hold(); /* the lock may only be taken while the service is held */
  if (result != tuttiSuccess) return result;
  tt_service_lock();
  result = root_open_locked(id, members, nmembers, where, settings, at);
  tt_service_unlock();
  tt_service_release();
  return result;
}

static int is_of(const struct tt_root *root, const struct tt_id *id)
{
  return memcmp(root->job, id->credentials.job, sizeof root->job) == 0;
}

void tt_root_wait(const struct tt_id *id, uint64_t timeout_ns)
{
  if (tt_service_hold() != tuttiSuccess) return;
  tt_service_lock();
  for (struct tt_root *root = tt_process.roots; root; root = root->next)
    if (is_of(root, id) && root->nonce == id->nonce) root->timeout_ns = timeout_ns;
  tt_service_unlock();
  tt_service_release();
}

/* 1: a rank has connected, and its record is on its way. */
static int is_half_come(const struct tt_root *root)
{
  for (const struct client *client = root->clients; client; client = client->next)
    if (client->watcher.fd >= 0 && !client->told && !client->has_slot) return 1;
  return 0;
}

/* A process that ends with a start-up that has failed takes no more ranks, and those that have connected hear the
 * reason. A rank that comes later finds nobody there, which is so. */
__attribute__((destructor)) static void exit_tell(void)
{
  int waits = 1;
  for (int ms = 0; waits && ms < EXIT_WAIT_MS && tt_service_try_lock(EXIT_WAIT_MS); ms++) {
    waits = 0;
    for (struct tt_root *root = tt_process.roots; root; root = root->next) {
      if (!root->code) continue;
      if (root->listener) tt_listener_dismiss(root->listener, root);
      waits |= is_half_come(root);
    }
    tt_service_unlock();
    if (waits) tt_sleep_ns(1000000);
  }
}

int tt_root_is_early(const struct tt_id *id)
{
  int is_early = 0;
  if (tt_service_hold() != tuttiSuccess) return 0;
  tt_service_lock();
  for (struct tt_root *root = tt_process.roots; root; root = root->next)
    if (is_of(root, id) && root->nonce == id->nonce)
      is_early = root->code && !root->derived &&
                 (is_half_come(root) ||
                  (root->code == tuttiInvalidUsage && root->came + unlike_count(root) < root->least));
  tt_service_unlock();
  tt_service_release();
  return is_early;
}

void tt_root_abandon(const struct tt_id *id)
{
  if (tt_service_hold() != tuttiSuccess) return; /* a child after fork */
  tt_service_lock();
  struct tt_root *root = tt_process.roots;
  while (root && !(is_of(root, id) && root->nonce == id->nonce)) root = root->next;
  if (root && root->nranks)
    tt_root_fail(root, tuttiRemoteError, "rank 0 (pid %d on %s) gave up before it joined", (int)root->self.pid,
                 root->self.host_name);
  else if (root) root_free(root);
  tt_service_unlock();
  tt_service_release();
}

/* ---- a process has ended ---- */

static int has_joined(const struct tt_root *root, int pid)
{
  for (uint32_t r = 0; r < root->nranks; r++)
    if (root->slots[r].state != SLOT_EMPTY && root->slots[r].record.pid == pid) return 1;
  return 0;
}

void tt_id_ended(const struct tt_id *id, const struct tt_ended *ended)
{
  if (tt_service_hold() != tuttiSuccess) return; /* the lock may only be taken while the service is held */
  tt_service_lock();
  struct tt_root *root = tt_process.roots;
  while (root && !is_of(root, id)) root = root->next;
  if (root && !root->ended.pid && !has_joined(root, ended->pid)) {
    root->ended = *ended;
    tt_root_miss(root);
  }
  tt_service_unlock();
  tt_service_release();
}
