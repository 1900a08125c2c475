/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 1: collectives end alike on all survivors, and the communicator goes on without lost ranks.
 *
 * The *plane* of a view carries out its operations: in the first view the communicator itself, in each later one a
 * communicator shrunk from it, made when the first operation of the view begins, and never shown to the program. An
 * operation is run on the plane, then a barrier, the commit barrier. If either fails, the plane is given up, and
 * view/view.h decides how the operation has ended and who is left. Words go over the communicator's own watch, which
 * lives as long as the communicator, whatever planes have failed: it looks after all ranks of the first view.
 *
 * An operation that fails is the moment at which the program learns of a new view, so the facts that it sees change
 * then: also on a rank for which the operation before was under way when the view ended. */
#include <stdio.h>
#include <string.h>

#include "comm/creation_private.h"
#include "comm/views_private.h"

#define GRACE_MS 5000                /* a failure may be explained by a loss for so long, */
#define GRACE_MORE_MS 1000           /* and so much longer than a loss of contact goes unnoticed */
#define VAIN_MOST 3                  /* changes without a loss, with replicas, until the communicator ends */
#define LOOK_EVERY 10                /* milliseconds between looks for dead processes */
#define INIT_TIMEOUT_MOST 2000000000 /* that init_timeout_ms may be */

tuttiResult_t tt_views_refuse(const struct tuttiComm *comm, const char *what)
{
  if (!comm->parts.views) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "comm has fault_level %d, with which %s are not carried out yet: use a "
                 "communicator with fault_level 0 for them", comm->facts.settings.fault_level - 1, what);
}

/* ---- creation and end ---- */

tuttiResult_t tt_views_create(struct tuttiComm *comm)
{
  struct tt_views *views = tt_alloc(1, sizeof *views);
  if (!views) return tt_fail(tuttiSystemError, "no memory for views (fault_level)");
  comm->parts.views = views;
  views->plane = comm;
  atomic_fetch_add(&comm->queue.queued, 1); /* so that all calls go through the queue, and from there to views */
  return tuttiSuccess;
}

tuttiResult_t tt_views_meet(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  tuttiResult_t result = tuttiSuccess;
  if (!views) return result;
  if (comm->facts.settings.fault_level == 1 + 3) result = tt_replicas_create(comm);
  if (result != tuttiSuccess) return result;
  int nhosts = comm->life.creation->nhosts;
  return tt_view_create(&views->view, comm->facts.nranks, comm->facts.rank, nhosts > 1);
}

void tt_views_ready(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  if (views) tt_watch_goes_on(comm->parts.watch, 1);
  if (!views || !views->replicas) return;
  comm->facts.nranks = comm->facts.first_nranks / views->replicas->n;
  comm->facts.rank = comm->facts.first_rank / views->replicas->n;
  views->plane = NULL; /* the first one, too, is shrunk from it: to all */
  tt_comm_means_free(comm);
}

void tt_views_destroy(struct tt_views *views)
{
  if (!views) return;
  tt_replicas_destroy(views->replicas);
  tt_view_destroy(views->view);
  tt_free(views);
}

struct tuttiComm *tt_views_set(struct tuttiComm **slot, struct tuttiComm *comm)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct tuttiComm *before = *slot;
  *slot = comm;
  pthread_mutex_unlock(&tt_process.mutex);
  return before;
}

void tt_views_interrupt(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  if (!views) return;
  struct tt_replicas *replicas = views->replicas;
  pthread_mutex_lock(&tt_process.mutex);
  struct tuttiComm *all[] = {views->plane, replicas ? replicas->group : NULL, replicas ? replicas->leaders : NULL};
  for (int k = 0; k < 3; k++)
    if (all[k]) atomic_store(&all[k]->life.aborting, 1);
  pthread_mutex_unlock(&tt_process.mutex);
}

void tt_views_end(struct tuttiComm *comm, int aborts)
{
  struct tt_views *views = comm->parts.views;
  if (views) tt_replicas_end(views->replicas, aborts);
  struct tuttiComm *plane = views ? tt_views_set(&views->plane, NULL) : NULL;
  if (plane && plane != comm) (aborts ? tt_comm_abort : tt_comm_destroy)(plane);
}

tuttiResult_t tt_views_standing(const struct tuttiComm *comm)
{
  const struct tt_views *views = comm->parts.views;
  tuttiResult_t over = (tuttiResult_t)atomic_load_explicit(&views->over, memory_order_acquire);
  return over ? tt_fail_quiet(over, views->last) : tuttiSuccess;
}

/* No further operation is carried out on this rank. */
static tuttiResult_t over(struct tuttiComm *comm, tuttiResult_t code, const char *sentence)
{
  struct tt_views *views = comm->parts.views;
  pthread_mutex_lock(&tt_process.mutex);
  if (!atomic_load(&views->over)) {
    snprintf(views->last, sizeof views->last, "%s", sentence);
    atomic_store_explicit(&views->over, (int)code, memory_order_release);
  }
  pthread_mutex_unlock(&tt_process.mutex);
  return tt_views_standing(comm);
}

void tt_views_revoke(struct tuttiComm *comm, const char *sentence)
{
  over(comm, tuttiInvalidUsage, sentence);
}

/* ---- the plane ---- */

/* Waits until the plane is made. Members that never come to its start-up are late, as for any operation. */
static tuttiResult_t plane_await(struct tuttiComm *comm, struct tuttiComm *plane, uint64_t began_ns)
{
  struct tt_watch *watch = comm->parts.watch;
  uint64_t timeout_ns = (uint64_t)comm->facts.settings.timeout_ms * 1000000u;
  uint8_t came[TT_VIEW_RANKS] = {0};
  struct tt_waiter waiter;
  tuttiResult_t result;
  tt_waiter_init(&waiter, 1);
  while ((result = tt_comm_create_poll(plane)) == tuttiInProgress) {
    if (!tt_waiter_pause(&waiter, 0)) continue;
    for (int r = 0; r < comm->facts.first_nranks; r++)
      came[r] = came[r] || !tt_watch_sees(watch, r) || tt_watch_startup_has(watch, &plane->life.creation->startup, r);
    tt_views_hear(comm);
    if (tt_view_is_stopping(comm->parts.views->view))
      return tt_fail_quiet(tuttiRemoteError, "another rank has stopped in the start-up of a view");
    if (tt_watch_is_lost(watch, comm->facts.first_rank))
      return tt_fail(tuttiRemoteError, "the other ranks took rank %d for lost", comm->facts.first_rank);
  }
  for (int r = 0; r < comm->facts.first_nranks && result == tuttiRemoteError; r++)
    if (timeout_ns && tt_now_ns() - began_ns >= timeout_ns && !came[r] &&
        tt_rank_set_has(tt_view_members(comm->parts.views->view), r))
      tt_watch_lose_late(watch, r);
  return result;
}

struct tt_settings tt_views_settings(const struct tuttiComm *comm)
{
  struct tt_settings settings = comm->facts.settings;
  settings.fault_level = 1; /* the choice "0" */
  settings.init_timeout_ms = settings.timeout_ms ? settings.timeout_ms : INIT_TIMEOUT_MOST;
  return settings;
}

/* Makes the communicator that carries out the operations of a later view. */
static tuttiResult_t plane_make(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  struct tuttiComm *plane = NULL;
  struct tt_settings settings = tt_views_settings(comm);
  int exclude[TT_VIEW_RANKS], n = 0;
  for (int r = 0; r < comm->facts.first_nranks; r++)
    if (!tt_rank_set_has(tt_view_members(views->view), r)) exclude[n++] = r;
  struct tt_comm_spec spec = {
      .parent = comm, .exclude = exclude, .nexclude = n, .settings = &settings, .device = comm->facts.device};
  uint64_t began_ns = tt_now_ns();
  tuttiResult_t result = tt_comm_create(&plane, &spec);
  if (result == tuttiSuccess) result = plane_await(comm, plane, began_ns);
  if (result != tuttiSuccess) {
    char sentence[TT_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
    if (plane) tt_comm_destroy(plane);
    return tt_fail_quiet(result, sentence);
  }
  tt_views_set(&views->plane, plane);
  if (views->replicas) result = tt_replicas_prepare(comm);
  if (result != tuttiSuccess) return result;
  return atomic_load(&comm->life.aborting) ? tt_comm_aborted(comm) : tuttiSuccess;
}

void tt_views_count(const struct tuttiComm *comm, struct tuttiComm *part)
{
  if (part) tt_watch_count(part->parts.watch, comm->parts.views->ncalls);
}

tuttiResult_t tt_views_carry(struct tuttiComm *on, struct tt_binding *binding)
{
  tuttiResult_t result = tt_comm_health(on);
  if (result != tuttiSuccess) return result;
  return on->parts.views ? tt_comm_run_here(on, binding) : tt_comm_run(on, binding);
}

tuttiResult_t tt_views_barrier(struct tuttiComm *on)
{
  uint8_t byte = 0;
  struct tt_binding barrier = {.call = {.count = 1,
                                        .collective = TT_ALL_REDUCE,
                                        .type = tuttiUint8,
                                        .redop = tuttiMax,
                                        .root = -1,
                                        .form = TT_FORM_BARRIER},
                               .in = &byte,
                               .out = &byte,
                               .before = 1};
  return on->facts.nranks > 1 ? tt_views_carry(on, &barrier) : tuttiSuccess;
}

/* The operation, then the commit barrier. */
static tuttiResult_t carry_out(struct tuttiComm *comm, struct tt_binding *binding)
{
  struct tt_views *views = comm->parts.views;
  if (views->plane != comm) tt_views_count(comm, views->plane);
  if (views->replicas) return tt_replicas_run(comm, binding);
  tuttiResult_t result = tt_views_carry(views->plane, binding);
  if (result != tuttiSuccess) return result;
  tt_view_held(views->view);
  return tt_views_barrier(views->plane);
}

/* ---- a change of the view ---- */

/* The program learns of the new view: its numbers change, and the operation fails. */
static tuttiResult_t install(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  const struct tt_rank_set *members = tt_view_members(views->view);
  int rank = 0, nranks = 0;
  if (!views->is_due) return tt_views_standing(comm);
  views->is_due = 0;
  if (views->replicas) return tt_fail_quiet(tuttiRemoteError, views->sentence); /* logical ranks stay */
  for (int r = 0; r < comm->facts.first_nranks; r++) {
    if (r == comm->facts.first_rank) rank = nranks;
    nranks += tt_rank_set_has(members, r);
  }
  __atomic_store_n(&comm->facts.rank, rank, __ATOMIC_RELAXED); /* other threads may ask */
  __atomic_store_n(&comm->facts.nranks, nranks, __ATOMIC_RELAXED);
  return tt_fail_quiet(tuttiRemoteError, views->sentence);
}

/* Writes which ranks are lost, the same on all that are left. Returns how many these are. */
static int lost_text(struct tuttiComm *comm, const struct tt_view_decision *decided, char *text, size_t size)
{
  const struct tt_views *views = comm->parts.views;
  char rank[128] = "", more[48] = "";
  int nlost = 0, nleft = 0;
  for (int r = 0; r < comm->facts.first_nranks; r++) {
    nleft += tt_rank_set_has(tt_view_members(views->view), r);
    if (!tt_rank_set_has(&decided->lost, r)) continue;
    if (!nlost++) tt_watch_rank_text(comm->parts.watch, r, rank, sizeof rank);
  }
  if (nlost > 1) snprintf(more, sizeof more, " and %d more", nlost - 1);
  snprintf(text, size, "%s%s %s lost", rank, more, nlost > 1 ? "are" : "is");
  return nleft;
}

/* The new view is no view to go on in: why, as a sentence. 0: it is one. */
static int is_last(struct tuttiComm *comm, const struct tt_view_decision *decided, char sentence[TT_SENTENCE_BYTES])
{
  char lost[200];
  int nleft = lost_text(comm, decided, lost, sizeof lost), lacking = tt_replicas_lacking(comm);
  if (lacking >= 0)
    snprintf(sentence, TT_SENTENCE_BYTES, "%s: of logical rank %d no more than half of the replicas is left: the "
             "communicator ends", lost, lacking);
  else if (decided->ends == TT_VIEW_PART)
    snprintf(sentence, TT_SENTENCE_BYTES, "%s, or cannot hear these ranks, which are %d, and may go on: more than half "
             "of the ranks do, or half of them with the lowest one. These do not: destroy comm", lost, nleft);
  else return 0;
  return 1;
}

/* The program learns of the new view by this sentence. */
static void sentence_make(struct tuttiComm *comm, const struct tt_view_decision *decided)
{
  struct tt_views *views = comm->parts.views;
  char lost[200];
  int nleft = lost_text(comm, decided, lost, sizeof lost);
  if (views->replicas) snprintf(views->sentence, sizeof views->sentence, "%s: %d replicas go on", lost, nleft);
  else
    snprintf(views->sentence, sizeof views->sentence,
             "%s: collective #%llu of this %.100s failed on all ranks that are left, which are %d from now on: they "
             "may make it again", lost, (unsigned long long)decided->last + 1, comm->facts.label, nleft);
}

/* Calls are made again, with replicas, and fail one after the other, though no rank is lost. All ranks count alike. */
static int is_vain(struct tuttiComm *comm, const struct tt_view_decision *decided)
{
  static const struct tt_rank_set none;
  struct tt_views *views = comm->parts.views;
  int is_loss = memcmp(&decided->lost, &none, sizeof none) != 0, is_next = decided->last == views->failed;
  views->nvain = is_loss ? 0 : is_next ? views->nvain + 1 : 1;
  views->failed = decided->last + 1;
  return views->nvain > VAIN_MOST;
}

/* The view has ended. why: the sentence with which the plane failed here. */
static tuttiResult_t changed(struct tuttiComm *comm, const char *why)
{
  struct tt_views *views = comm->parts.views;
  const struct tt_view_decision *decided = &tt_view_said(views->view)->decided;
  int succeeds = tt_view_succeeds(views->view);
  if (decided->ends && decided->ends != TT_VIEW_PART) {
    tt_watch_goes_on(comm->parts.watch, 0);
    tuttiResult_t result = over(comm, (tuttiResult_t)decided->ends, why);
    return succeeds ? tuttiSuccess : result;
  }
  if (is_last(comm, decided, views->sentence)) {
    tt_watch_goes_on(comm->parts.watch, 0);
    tuttiResult_t result = over(comm, tuttiRemoteError, views->sentence);
    tt_watch_leave(comm->parts.watch, 1); /* others that go on wait for it no more */
    return succeeds ? tuttiSuccess : result;
  }
  if (is_vain(comm, decided)) {
    tt_watch_goes_on(comm->parts.watch, 0);
    tuttiResult_t result = over(comm, tuttiRemoteError, why);
    return succeeds ? tuttiSuccess : result;
  }
  sentence_make(comm, decided);
  tt_log(TT_LOG_INFO, "%s", views->sentence);
  views->is_due = 1;
  return succeeds ? tuttiSuccess : install(comm);
}

static tuttiResult_t expelled(struct tuttiComm *comm)
{
  char sentence[TT_SENTENCE_BYTES], rank[128];
  tt_watch_rank_text(comm->parts.watch, comm->facts.first_rank, rank, sizeof rank);
  snprintf(sentence, sizeof sentence,
           "the other ranks took %s for lost, and go on without it: destroy the communicator", rank);
  return over(comm, tuttiRemoteError, sentence);
}

/* Ranks that were late for an operation, or were lost in another way that only the plane's watch has noticed. With
 * replicas a rank that has not come to one communicator may wait for a late one in another: the change, to which only
 * late ranks do not come, tells which these are. */
static void losses_take(struct tuttiComm *comm)
{
  const struct tt_views *views = comm->parts.views;
  const struct tuttiComm *plane = views->plane;
  for (int r = 0, there = 0; plane && plane != comm && r < comm->facts.first_nranks; r++)
    if (tt_rank_set_has(tt_view_members(views->view), r))
      tt_watch_lose_too(comm->parts.watch, r, plane->parts.watch, there++, !views->replicas);
  if (views->replicas) tt_replicas_losses(comm);
}

/* A rank that finds another one lost looks after that whether it is taken
 * for lost itself: of two that take each other for lost one at least sees it. */
void tt_views_hear(struct tuttiComm *comm)
{
  struct tt_view *view = comm->parts.views->view;
  struct tt_replicas *replicas = comm->parts.views->replicas;
  const struct tt_watch *watch = comm->parts.watch;
  struct tt_views_said said;
  uint8_t lost[TT_VIEW_RANKS] = {0};
  int nranks = comm->facts.first_nranks, self = comm->facts.first_rank;
  for (int r = 0; r < nranks; r++) lost[r] = r != self && tt_watch_is_lost(watch, r);
  if (tt_watch_is_lost(watch, self)) tt_view_lose(view, self, 0);
  for (int r = 0; r < nranks; r++) {
    if (r != self && tt_watch_said(watch, r, (void *)&said, TT_VIEWS_WORDS)) {
      tt_view_hear(view, r, &said.view);
      int is_replica = replicas && r / replicas->n == self / replicas->n;
      if (is_replica && tt_rank_set_has(tt_view_members(view), r)) {
        tt_raft_hear(&replicas->raft, r % replicas->n, &said.raft);
        replicas->seen[r % replicas->n] = said.view.view;
      }
    }
    if (lost[r]) tt_view_lose(view, r, tt_watch_is_dead(watch, r));
  }
}

void tt_views_say(struct tuttiComm *comm)
{
  const struct tt_views *views = comm->parts.views;
  struct tt_views_said said = {.view = *tt_view_said(views->view)};
  if (views->replicas) said.raft = views->replicas->raft.said;
  tt_watch_say(comm->parts.watch, (void *)&said, TT_VIEWS_WORDS);
}

/* About every millisecond: looks for dead processes, and for ranks that are late. waited_ns: since this rank has
 * stopped, which ends the grace of the others: before that they may wait for an explanation like this one; 0: it has
 * not. */
static void look(struct tuttiComm *comm, uint64_t waited_ns, int number)
{
  const struct tt_view *view = comm->parts.views->view;
  uint64_t timeout_ns = (uint64_t)comm->facts.settings.timeout_ms * 1000000u;
  for (int r = 0; r < comm->facts.first_nranks && number % LOOK_EVERY == 0; r++) {
    if (!tt_view_awaits(view, r)) continue;
    tt_watch_exclude(comm->parts.watch, &r, 1);
    if (timeout_ns && waited_ns > timeout_ns) tt_watch_lose_late(comm->parts.watch, r);
  }
}

/* Stops the view once it is known why the plane has failed: a loss, or else an error of this rank. A loss may show as
 * any error but that of calls which differ. With replicas a late rank shows as one that does not come to the change. */
static int stop(struct tuttiComm *comm, tuttiResult_t why, uint64_t waited_ns, int is_late)
{
  struct tt_view *view = comm->parts.views->view;
  int is_loss = tt_view_is_stopping(view) || is_late;
  int64_t grace_ms = comm->facts.settings.unreachable_ms + GRACE_MORE_MS;
  if (grace_ms < GRACE_MS) grace_ms = GRACE_MS;
  if (!is_loss && why != tuttiInvalidUsage && waited_ns < (uint64_t)grace_ms * 1000000u) return 0;
  tt_view_stop(view, is_loss ? tuttiSuccess : why);
  return 1;
}

/* The plane has failed in an operation that began at since_ns: agrees with the others on what becomes of it. */
static tuttiResult_t change(struct tuttiComm *comm, tuttiResult_t why, uint64_t since_ns)
{
  struct tt_views *views = comm->parts.views;
  char sentence[TT_SENTENCE_BYTES];
  struct tt_waiter waiter;
  uint64_t began_ns = tt_now_ns(), stopped_ns = 0;
  uint64_t timeout_ns = (uint64_t)comm->facts.settings.timeout_ms * 1000000u;
  int is_late = views->replicas && why == tuttiRemoteError && timeout_ns && began_ns - since_ns >= timeout_ns;
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  losses_take(comm);
  int is_first = views->plane == comm;
  tt_views_end(comm, 1); /* it reads and writes no more */
  if (is_first) tt_comm_means_free(comm);
  tt_waiter_init(&waiter, 1);
  for (int looks = 0; !atomic_load(&comm->life.aborting);) {
    uint64_t now_ns = tt_now_ns();
    tt_views_hear(comm);
    if (!stopped_ns && stop(comm, why, now_ns - began_ns, is_late)) stopped_ns = now_ns;
    enum tt_view_act act = tt_view_next(views->view);
    if (act == TT_VIEW_CHANGED) return changed(comm, sentence);
    if (act == TT_VIEW_EXPELLED) return expelled(comm);
    if (act == TT_VIEW_SAY) tt_views_say(comm);
    if (tt_waiter_pause(&waiter, act == TT_VIEW_SAY)) look(comm, stopped_ns ? now_ns - stopped_ns : 0, looks++);
  }
  return tt_comm_aborted(comm);
}

/* result: an error that this rank has met before; the others learn that it gives up. */
static tuttiResult_t attempt(struct tuttiComm *comm, struct tt_binding *binding, tuttiResult_t result)
{
  struct tt_views *views = comm->parts.views;
  uint64_t since_ns = tt_now_ns();
  enum tt_view_fate fate = tt_view_begin(views->view);
  if (atomic_load(&views->over)) return tt_views_standing(comm);
  if (fate != TT_VIEW_RUNS) return install(comm);
  if (result == tuttiSuccess && !views->plane) result = plane_make(comm);
  if (result == tuttiSuccess) result = carry_out(comm, binding);
  if (result == tuttiSuccess) return result;
  if (atomic_load(&comm->life.aborting)) return tt_comm_aborted(comm);
  result = change(comm, result, since_ns);
  tt_watch_give_up(comm->parts.watch);
  return result;
}

tuttiResult_t tt_views_run(struct tuttiComm *comm, struct tt_binding *binding)
{
  struct tt_views *views = comm->parts.views;
  struct tt_binding own;
  char why[TT_SENTENCE_BYTES];
  views->ncalls++;
  tt_views_count(comm, comm);
  if (!views->replicas) return attempt(comm, binding, tuttiSuccess);
  tuttiResult_t kept = tt_replicas_keep(comm, binding, &own);
  if (kept == tuttiInvalidUsage) return kept; /* on all ranks */
  if (kept != tuttiSuccess) snprintf(why, sizeof why, "%s", tt_last_sentence());
  for (;;) { /* again, while only a process is lost */
    *binding = own;
    if (kept != tuttiSuccess) tt_fail_quiet(kept, why);
    tuttiResult_t result = attempt(comm, binding, kept);
    if (result != tuttiRemoteError || atomic_load(&views->over) || atomic_load(&comm->life.aborting)) return result;
  }
}
