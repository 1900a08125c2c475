/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 3: each logical rank is 3 or 5 processes, its replicas, which compute the same and make the same calls.
 * So no contribution is lost while one of them lives, and a call that fails is made again with the same contributions.
 *
 * In each view the replicas of a logical rank elect their leader by Raft, without time-outs: the view tells which of
 * them live, and an election lasts until all of these follow the leader (tt_raft_elect). Leaders carry out a call among
 * themselves, in the order of the logical ranks and by the tree that depends on their number alone (`deterministic`),
 * so the bits of a result are the same whoever leads. Then each leader hands its result to the other replicas, and all
 * processes meet in the commit barrier of fault_level 1. A replica keeps its contribution until then. If a process is
 * lost meanwhile, the view changes (views.c): either all that are left hold the result, or none keeps it, and the call
 * is made again in the next view.
 *
 * Raft's entries say of which attempt the leader has the result. They travel with it, and their acknowledgements with
 * the barrier; words are only said in elections. A logical rank goes on while more than half of its replicas are
 * there: two parts of them can never both lead. */
#include <stdio.h>
#include <string.h>

#include "comm/views_private.h"

static int logical_rank(const struct tuttiComm *comm, int process)
{
  return process / comm->parts.views->replicas->n;
}

/* 1: replica r of this logical rank is in the view. */
static int is_there(const struct tuttiComm *comm, int r)
{
  const struct tt_views *views = comm->parts.views;
  int first = logical_rank(comm, comm->facts.first_rank) * views->replicas->n;
  return r >= 0 && tt_rank_set_has(tt_view_members(views->view), first + r);
}

tuttiResult_t tt_replicas_create(struct tuttiComm *comm)
{
  int n = 3 + 2 * comm->facts.settings.replicas; /* choices: 3, 5 */
  if (comm->facts.nranks % n)
    return tt_fail(tuttiInvalidUsage, "fault_level is 3, and nranks is %d, which is no multiple of %d: start %d "
                   "processes for each logical rank (TUTTI_REPLICAS)", comm->facts.nranks, n, n);
  struct tt_replicas *replicas = tt_alloc(1, sizeof *replicas);
  if (!replicas) return tt_fail(tuttiSystemError, "no memory for replicas (fault_level 3)");
  replicas->n = n;
  replicas->raft.n = n;
  replicas->raft.self = comm->facts.rank % n;
  comm->parts.views->replicas = replicas;
  return tuttiSuccess;
}

void tt_replicas_destroy(struct tt_replicas *replicas)
{
  if (replicas) tt_free(replicas->copy);
  tt_free(replicas);
}

/* ---- contributions ---- */

/* Bytes of a buffer of this rank. */
static size_t bytes_of(const struct tuttiComm *comm, const struct tt_call *call, int cover)
{
  size_t bytes = call->count * tt_type_size(call->type);
  if (cover == TT_COVER_ROOT && call->root != comm->facts.rank) return 0;
  return tt_kinds[call->collective].is_shared && cover != TT_COVER_OWN ? bytes * (size_t)comm->facts.nranks : bytes;
}

static tuttiResult_t refused(const struct tuttiComm *comm, const struct tt_binding *binding)
{
  if (binding->shares) return tt_views_refuse(comm, "calls with counts");
  if (binding->overflow) return tt_views_refuse(comm, "overflow reports");
  if (binding->scalar_at) return tt_views_refuse(comm, "scalars in memory");
  return tuttiSuccess;
}

tuttiResult_t tt_replicas_keep(struct tuttiComm *comm, const struct tt_binding *binding, struct tt_binding *own)
{
  struct tt_replicas *replicas = comm->parts.views->replicas;
  const struct tt_kind *kind = &tt_kinds[binding->call.collective];
  size_t ins = binding->in ? bytes_of(comm, &binding->call, kind->in) : 0;
  size_t outs = binding->out ? bytes_of(comm, &binding->call, kind->out) : 0;
  const uint8_t *in = binding->in, *out = binding->out;
  tuttiResult_t result = refused(comm, binding);
  *own = *binding;
  if (result != tuttiSuccess || !ins || !outs || in >= out + outs || out >= in + ins) return result;
  if (replicas->room < ins) {
    tt_free(replicas->copy);
    replicas->copy = tt_alloc(ins, 1);
    replicas->room = replicas->copy ? ins : 0;
  }
  if (!replicas->copy) return tt_fail(tuttiSystemError, "no memory to keep the contribution to a call in place");
  memcpy(replicas->copy, in, ins);
  own->in = replicas->copy;
  return tuttiSuccess;
}

/* ---- elections ---- */

/* The replicas of this logical rank that are in the view, a bit each. *here: those that have said so. */
static unsigned members(const struct tuttiComm *comm, unsigned *here)
{
  const struct tt_replicas *replicas = comm->parts.views->replicas;
  uint64_t view = tt_view_said(comm->parts.views->view)->view;
  unsigned there = 0;
  *here = 0;
  for (int r = 0; r < replicas->n; r++) {
    if (!is_there(comm, r)) continue;
    there |= 1u << r;
    *here |= (unsigned)(replicas->seen[r] == view) << r;
  }
  return there;
}

static void actions_take(struct tuttiComm *comm)
{
  int says = 0;
  for (enum tt_raft_act act; (act = tt_raft_next(&comm->parts.views->replicas->raft)) != TT_RAFT_NOTHING;)
    says |= act == TT_RAFT_SAY;
  if (says) tt_views_say(comm);
}

/* About every millisecond: replicas that do not come to the election are late, as for any operation. A net, for those
 * that have all come: it ends. */
static tuttiResult_t look(struct tuttiComm *comm, unsigned missing, uint64_t waited_ns)
{
  uint64_t timeout_ns = (uint64_t)comm->facts.settings.timeout_ms * 1000000u;
  int n = comm->parts.views->replicas->n, first = logical_rank(comm, comm->facts.first_rank) * n;
  if (!timeout_ns || waited_ns <= timeout_ns) return tuttiSuccess;
  for (int r = 0; r < n; r++)
    if (missing >> r & 1) tt_watch_lose_late(comm->parts.watch, first + r);
  if (missing || waited_ns / 2 <= timeout_ns) return tuttiSuccess;
  return tt_fail(tuttiInternalError, "fault_level 3: the replicas of logical rank %d elect no leader, which is an "
                 "error in Tutti: destroy comm, and report it", comm->facts.rank);
}

/* All members of the view have made the plane, and come here. */
static tuttiResult_t elect(struct tuttiComm *comm)
{
  struct tt_views *views = comm->parts.views;
  struct tt_raft *raft = &views->replicas->raft;
  struct tt_waiter waiter;
  uint64_t began_ns = tt_now_ns();
  tt_waiter_init(&waiter, 1);
  tt_views_say(comm); /* that it is in this view */
  for (;;) {
    tt_views_hear(comm);
    unsigned here, there = members(comm, &here);
    int is_over = tt_raft_elect(raft, there, here);
    actions_take(comm);
    if (is_over) return tuttiSuccess;
    tuttiResult_t result = tt_comm_health(views->plane);
    if (result != tuttiSuccess) return result;
    if (tt_view_is_stopping(views->view)) return tt_fail_quiet(tuttiRemoteError, "a rank was lost in an election");
    if (atomic_load(&comm->life.aborting)) return tt_comm_aborted(comm);
    if (!tt_waiter_pause(&waiter, 0)) continue;
    result = look(comm, there & ~here & ~(1u << raft->self), tt_now_ns() - began_ns);
    if (result != tuttiSuccess) return result;
  }
}

/* ---- the communicators of a view ---- */

static tuttiResult_t part_make(struct tuttiComm *comm, struct tuttiComm **slot, int color, int is_deterministic)
{
  struct tuttiComm *part = NULL;
  struct tt_settings settings = tt_views_settings(comm);
  if (is_deterministic) settings.deterministic = 1;
  struct tt_comm_spec spec = {
      .parent = comm->parts.views->plane, .color = color, .settings = &settings, .device = comm->facts.device};
  tuttiResult_t result = tt_comm_create(&part, &spec);
  if (result == tuttiSuccess) result = tt_comm_create_wait(part);
  if (result != tuttiSuccess) {
    char sentence[TT_SENTENCE_BYTES];
    snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
    if (part) tt_comm_destroy(part);
    return tt_fail_quiet(result, sentence);
  }
  tt_views_set(slot, tt_comm_handle(part));
  return tuttiSuccess;
}

/* A net: with two leaders of a logical rank every result would be wrong, and longer than the buffers for it. */
static tuttiResult_t leaders_check(const struct tuttiComm *comm)
{
  const struct tuttiComm *leaders = comm->parts.views->replicas->leaders;
  int nranks = comm->facts.nranks, rank = comm->facts.rank;
  if (!leaders || (leaders->facts.nranks == nranks && leaders->facts.rank == rank)) return tuttiSuccess;
  return tt_fail(tuttiInternalError, "fault_level 3: %d leaders were elected for %d logical ranks, and that of logical "
                 "rank %d is number %d among them, which is an error in Tutti: destroy comm, and report it",
                 leaders->facts.nranks, nranks, rank, leaders->facts.rank);
}

tuttiResult_t tt_replicas_prepare(struct tuttiComm *comm)
{
  struct tt_replicas *replicas = comm->parts.views->replicas;
  tuttiResult_t result = elect(comm);
  if (result == tuttiSuccess)
    result = part_make(comm, &replicas->group, logical_rank(comm, comm->facts.first_rank), 0);
  if (result == tuttiSuccess)
    result = part_make(comm, &replicas->leaders, replicas->raft.said.leads ? 0 : TUTTI_SPLIT_NOCOLOR, 1);
  return result == tuttiSuccess ? leaders_check(comm) : result;
}

void tt_replicas_losses(struct tuttiComm *comm)
{
  const struct tt_replicas *replicas = comm->parts.views->replicas;
  int first = logical_rank(comm, comm->facts.first_rank) * replicas->n;
  for (int r = 0, there = 0; replicas->group && r < replicas->n; r++)
    if (is_there(comm, r)) tt_watch_lose_too(comm->parts.watch, first + r, replicas->group->parts.watch, there++, 0);
}

void tt_replicas_end(struct tt_replicas *replicas, int aborts)
{
  if (!replicas) return;
  struct tuttiComm *parts[] = {tt_views_set(&replicas->leaders, NULL), tt_views_set(&replicas->group, NULL)};
  for (int k = 0; k < 2; k++)
    if (parts[k]) (aborts ? tt_comm_abort : tt_comm_destroy)(parts[k]);
}

/* ---- calls ---- */

/* The leader's result goes to the other replicas; where there is none, a byte: what comes says that the leader has
 * proposed its entry, and who has it takes the entry over before it comes to the barrier. */
static tuttiResult_t hand_on(struct tuttiComm *comm, const struct tt_binding *binding)
{
  struct tt_replicas *replicas = comm->parts.views->replicas;
  int root = 0, leader = tt_raft_leader(&replicas->raft);
  size_t bytes = binding->out ? bytes_of(comm, &binding->call, tt_kinds[binding->call.collective].out) : 0;
  uint8_t byte = 0;
  void *out = bytes ? binding->out : &byte;
  if (replicas->group->facts.nranks == 1) return tuttiSuccess;
  for (int r = 0; r < leader; r++) root += is_there(comm, r);
  struct tt_binding result = {
      .call = {.count = bytes ? bytes : 1, .collective = TT_BROADCAST, .type = tuttiUint8, .root = root},
      .in = replicas->leaders ? out : NULL,
      .out = out,
      .before = 1};
  return tt_views_carry(replicas->group, &result);
}

tuttiResult_t tt_replicas_run(struct tuttiComm *comm, struct tt_binding *binding)
{
  struct tt_views *views = comm->parts.views;
  struct tt_raft *raft = &views->replicas->raft;
  const struct tt_raft_entry entry = {raft->said.term, raft->said.last.index + 1, tt_view_said(views->view)->op};
  tuttiResult_t result = tuttiSuccess;
  tt_views_count(comm, views->replicas->group);
  tt_views_count(comm, views->replicas->leaders);
  if (views->replicas->leaders) {
    result = tt_views_carry(views->replicas->leaders, binding);
    if (result == tuttiSuccess && !tt_raft_propose(raft, entry.value)) /* a net */
      result = tt_fail(tuttiInternalError, "fault_level 3: the leader of logical rank %d does not lead any more, "
                       "which is an error in Tutti: destroy comm, and report it", comm->facts.rank);
  }
  if (result == tuttiSuccess) result = hand_on(comm, binding);
  if (result != tuttiSuccess) return result;
  tt_raft_shown(raft, &entry, entry.index - 1);
  tt_view_held(views->view);
  result = tt_views_barrier(views->plane);
  if (result != tuttiSuccess) return result;
  tt_raft_shown(raft, &entry, entry.index);
  for (int r = 0; r < views->replicas->n; r++)
    if (is_there(comm, r)) tt_raft_acked(raft, r, &entry);
  return tuttiSuccess;
}

int tt_replicas_lacking(const struct tuttiComm *comm)
{
  const struct tt_views *views = comm->parts.views;
  int n = views->replicas ? views->replicas->n : 1;
  for (int first = 0; views->replicas && first < comm->facts.first_nranks; first += n) {
    int nleft = 0;
    for (int p = first; p < first + n; p++) nleft += tt_rank_set_has(tt_view_members(views->view), p);
    if (2 * nleft <= n) return first / n;
  }
  return -1;
}
