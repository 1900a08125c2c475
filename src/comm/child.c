/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made from others: split and shrink; what a grow (grow.c) has in common with them.
 *
 * Each rank of a child knows all of its ranks: after an all-gather of colors and keys over the parent, or from the list
 * of excluded ranks. From then on the child is made like any other communicator, except that no rank has to send its
 * id: its root is at the listener that the child's first rank has had since the parent was made. It lets each member in
 * by what the two of them share, a secret of the X25519 keys that went round in the parent's start-up, and tells it the
 * secret of which the child's key is made. So a rank of the parent that is no member cannot join, and never has that
 * key. A shrink needs nothing of a parent that has failed except its watch. The watch goes on looking after the ranks,
 * and ends the start-up of a child if one of its ranks is lost or gives up. */
#include <stdio.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "comm/creation_private.h"

static uint64_t startup_key(const struct tuttiComm *parent, const struct tt_child_context *context)
{
  uint8_t digest[TT_KEY_BYTES];
  uint64_t key;
  tt_key_derive(digest, parent->parts.credentials.key, "tutti-startup", context, sizeof *context);
  memcpy(&key, digest, sizeof key);
  return key;
}

/* The credentials of the child's rank `member` at its root; the other one of these two is the parent's rank `other`. */
static tuttiResult_t credentials_derive(const struct tuttiComm *parent, const struct tt_child_context *context,
                                        int member, int other, struct tt_credentials *out)
{
  struct {
    struct tt_child_context context;
    uint64_t member;
    uint8_t shared[TT_KEY_BYTES];
  } facts = {.context = *context, .member = (uint64_t)member};
  uint8_t job[TT_KEY_BYTES];
  const uint8_t *public = parent->parts.publics + (size_t)other * TT_KEY_BYTES;
  if (!tt_exchange_share(facts.shared, parent->parts.secret, public))
    return tt_fail(tuttiRemoteError, "rank %d has given no X25519 key in the start-up of the %s", other,
                   parent->facts.label);
  tt_key_derive(out->key, parent->parts.credentials.key, "tutti-child", &facts, sizeof facts);
  tt_key_derive(job, out->key, "tutti-child-job", NULL, 0);
  memcpy(out->job, job, sizeof out->job);
  out->epoch = parent->parts.credentials.epoch + 1;
  tt_wipe(&facts, sizeof facts);
  return tuttiSuccess;
}

static tuttiResult_t id_derive(struct tuttiComm *comm, const struct tt_child_context *context)
{
  struct tt_creation *creation = comm->life.creation;
  const struct tuttiComm *parent = creation->parent;
  const int32_t *ranks = creation->ranks;
  int n = comm->facts.nranks, rank = comm->facts.rank;
  creation->id = (struct tt_id){.flags = TT_ID_MIXED | TT_ID_DERIVED};
  tt_address_unpack(&creation->id.root, parent->parts.listeners + (size_t)ranks[0] * TT_ADDRESS_PACKED_BYTES);
  tuttiResult_t result = credentials_derive(parent, context, rank, ranks[0], &creation->id.credentials);
  if (rank > 0 || result != tuttiSuccess) return result;
  creation->admits = tt_alloc((size_t)n, sizeof *creation->admits);
  if (!creation->admits) return tt_fail(tuttiSystemError, "out of memory for the credentials of %d ranks", n);
  for (int r = 0; r < n && result == tuttiSuccess; r++)
    result = credentials_derive(parent, context, r, ranks[r], &creation->admits[r]);
  return result;
}

/* A topology file is about the ranks of the first parent: a child takes its part of that. */
static tuttiResult_t topology_take(struct tuttiComm *comm, const struct tuttiComm *parent, const int32_t *members)
{
  const struct tt_topology *whole = &parent->parts.topology;
  if (!comm->facts.settings.topology[0]) return tuttiSuccess;
  uint64_t *nodes = tt_alloc((size_t)comm->facts.nranks, sizeof *nodes);
  struct tt_locality *localities = tt_alloc((size_t)comm->facts.nranks, sizeof *localities);
  tuttiResult_t result = tuttiSystemError;
  for (int r = 0; nodes && localities && r < comm->facts.nranks; r++) {
    nodes[r] = (uint64_t)whole->node[members[r]];
    localities[r] = (struct tt_locality){whole->numa[members[r]], whole->cache[members[r]]};
  }
  if (nodes && localities) result = tt_topology_make(&comm->parts.topology, comm->facts.nranks, nodes, localities);
  else tt_fail(result, "out of memory for the topology of %d ranks", comm->facts.nranks);
  tt_free(nodes);
  tt_free(localities);
  return result;
}

static void label_make(struct tuttiComm *comm, const struct tuttiComm *parent, uint32_t how)
{
  static const char *const made[] = {[TT_SPLIT] = "split", [TT_SHRINK] = "shrunk", [TT_GROW] = "grown"};
  if (comm->facts.name[0]) return; /* it has one */
  const char *of = parent->facts.label;
  snprintf(comm->facts.label, sizeof comm->facts.label, "communicator of %d ranks %s from the %.44s%s",
           comm->facts.nranks, made[how], of, strlen(of) > 44 ? "..." : "");
}

tuttiResult_t tt_child_watch(struct tuttiComm *comm, const struct tt_child_context *context, int nmembers)
{
  struct tt_creation *creation = comm->life.creation;
  label_make(comm, creation->parent, context->how);
  creation->startup = (struct tt_startup){.key = startup_key(creation->parent, context),
                                      .members = creation->ranks,
                                      .nmembers = nmembers,
                                      .is_shrink = context->how == TT_SHRINK,
                                      .label = comm->facts.label};
  return tt_child_look(comm); /* before there is anything that other ranks could learn of */
}

/* Goes on with ranks known: those of creation->ranks, which are the parent's, in the child's order. */
static tuttiResult_t child_begin(struct tuttiComm *comm, const struct tt_child_context *context)
{
  struct tt_creation *creation = comm->life.creation;
  const struct tuttiComm *parent = creation->parent;
  const int32_t *ranks = creation->ranks;
  tuttiResult_t result = tt_child_watch(comm, context, comm->facts.nranks);
  if (result != tuttiSuccess) return result;
  result = id_derive(comm, context);
  creation->is_child = 1;
  memcpy(comm->parts.corrected, parent->parts.corrected, sizeof comm->parts.corrected);
  if (result == tuttiSuccess) result = topology_take(comm, parent, ranks);
  if (result == tuttiSuccess) result = tt_creation_start(comm);
  if (creation->admits) tt_wipe(creation->admits, (size_t)comm->facts.nranks * sizeof *creation->admits);
  tt_free(creation->admits);
  creation->admits = NULL;
  return result;
}

/* ---- what parent and child know of each other ---- */

tuttiResult_t tt_child_look(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct tuttiComm *parent = creation->parent;
  creation->startup.is_last = creation->stage == AGREEING && !creation->words_ns;
  int aborts = atomic_load(&parent->life.aborting);
  tuttiResult_t result = aborts ? tt_comm_aborted(parent) : tt_watch_startup(parent->parts.watch, &creation->startup);
  creation->is_known = result != tuttiSuccess;
  return result;
}

static void child_tell(const struct tuttiComm *parent, uint64_t key, const char *label, tuttiResult_t code,
                       const char *why)
{
  char sentence[TT_SENTENCE_BYTES], rank[128], when[48];
  tt_watch_rank_text(parent->parts.watch, parent->facts.first_rank, rank, sizeof rank);
  snprintf(sentence, sizeof sentence, "%s gave up the start-up of the %s at %s: %.250s", rank, label,
           tt_now_text(when, sizeof when), why);
  tt_watch_notice(parent->parts.watch, key, code, sentence);
}

void tt_child_tell(struct tuttiComm *comm, tuttiResult_t code)
{
  struct tt_creation *creation = comm->life.creation;
  struct tuttiComm *parent = creation->parent;
  tt_watch_told(parent->parts.watch);
  if (creation->is_known) return;
  const char *label = creation->startup.label ? comm->facts.label : "communicator that it shrinks to";
  if (creation->startup.key) child_tell(parent, creation->startup.key, label, code, comm->life.creation_error);
  else if (code == tuttiSystemError || creation->op) tt_comm_give_up(parent, code, 0); /* others gather */
}

void tt_child_no_memory(const struct tt_comm_spec *spec, const struct tt_attempt *try)
{
  if (spec->parent) tt_watch_told(spec->parent->parts.watch);
  if (spec->exclude) child_tell(spec->parent, try->key, "communicator that it shrinks to", tuttiSystemError,
                                tt_last_sentence());
  else if (spec->parent) tt_comm_give_up(spec->parent, tuttiSystemError, 0);
}

/* ---- split ---- */

struct color_key {
  int32_t color, key;
};

tuttiResult_t tt_child_gather(struct tuttiComm *comm, uint64_t form, const void *mine, size_t bytes)
{
  struct tt_creation *creation = comm->life.creation;
  struct tuttiComm *parent = creation->parent;
  size_t n = (size_t)parent->facts.nranks;
  char *all = tt_alloc(n + 1, bytes);
  if (!all) return tt_fail(tuttiSystemError, "out of memory for the words of %d ranks", parent->facts.nranks);
  memcpy(all + n * bytes, mine, bytes);
  struct tt_binding binding = {
      .call = {.count = bytes, .collective = TT_ALL_GATHER, .type = tuttiUint8, .root = -1, .form = form},
      .in = all + n * bytes,
      .out = all,
      .before = 1};
  creation->op = tt_op_take(parent, NULL, &binding);
  if (!creation->op) {
    tt_free(all);
    return tt_comm_give_up(parent, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  }
  creation->op->owned = all;
  creation->op->next_of_group = NULL;
  creation->stage = GATHERING;
  tt_ops_submit(creation->op);
  return tuttiSuccess;
}

/* Ranks of one color, by key, then by rank; -1 after them. */
static int members_sort(const struct color_key *colors, int nranks, int32_t color, int32_t *members)
{
  int n = 0;
  for (int32_t r = 0; r < nranks; r++) {
    int at = n;
    if (colors[r].color != color) continue;
    while (at && colors[members[at - 1]].key > colors[r].key) at--;
    memmove(&members[at + 1], &members[at], (size_t)(n - at) * sizeof *members);
    members[at] = r;
    n++;
  }
  return n;
}

static tuttiResult_t colors_take(struct tuttiComm *comm, const struct tt_op *op)
{
  const struct color_key *colors = op->owned;
  struct tuttiComm *parent = op->comm;
  struct tt_child_context context = {
      .how = TT_SPLIT, .number = op->binding.call.op, .color = colors[parent->facts.rank].color};
  if (context.color == TUTTI_SPLIT_NOCOLOR) {
    comm->life.is_none = 1;
    atomic_store_explicit(&comm->life.state, TT_COMM_NOT_CREATED, memory_order_release);
    return tuttiSuccess;
  }
  int32_t *ranks = comm->life.creation->ranks;
  comm->facts.nranks = members_sort(colors, parent->facts.nranks, context.color, ranks);
  while (ranks[comm->facts.rank] != parent->facts.rank) comm->facts.rank++;
  return child_begin(comm, &context);
}

/* The all-gather has failed here. Members of the child to which it brought all words wait for this rank: they hear of
 * it by the child's key, which of the words only needs this rank's own color. */
static tuttiResult_t words_lack(struct tuttiComm *comm, const struct tt_op *op)
{
  struct tt_creation *creation = comm->life.creation;
  const struct tuttiComm *parent = op->comm;
  struct tt_child_context context = {.how = TT_GROW, .number = op->binding.call.op};
  if (op->binding.call.form == TT_FORM_SPLIT) {
    context.how = TT_SPLIT;
    context.color = ((const struct color_key *)op->owned + parent->facts.nranks)->color;
    snprintf(comm->facts.label, sizeof comm->facts.label, "communicator split from the %.44s", parent->facts.label);
  } else label_make(comm, parent, TT_GROW);
  creation->startup.label = comm->facts.label;
  if (context.number && context.color != TUTTI_SPLIT_NOCOLOR) creation->startup.key = startup_key(parent, &context);
  return tt_comm_why(parent);
}

/* The words of all ranks, and this rank's own behind them. */
static size_t words_bytes(const struct tt_op *op)
{
  return ((size_t)op->comm->facts.nranks + 1) * op->binding.call.count;
}

/* As tt_comm_enter; several children of one parent may be polled by the caller and by the progress thread at once. */
static int parent_enter(struct tuttiComm *parent)
{
  atomic_fetch_add(&parent->life.inside, 1);
  if (!atomic_load(&parent->life.aborting)) return 1;
  atomic_fetch_sub(&parent->life.inside, 1);
  return 0;
}

tuttiResult_t tt_child_poll(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct tuttiComm *parent = creation->parent;
  struct tt_op *op = creation->op;
  if (!parent_enter(parent)) return tt_comm_aborted(parent);
  if (!atomic_load_explicit(&op->done, memory_order_acquire)) tt_comm_drive(parent, 1);
  int done = atomic_load_explicit(&op->done, memory_order_acquire);
  tuttiResult_t result = tuttiInProgress;
  if (done) {
    int is_split = op->binding.call.form == TT_FORM_SPLIT;
    if (op->result != tuttiSuccess) result = words_lack(comm, op);
    else result = is_split ? colors_take(comm, op) : tt_grow_take(comm, op);
    creation->op = NULL;
    tt_wipe(op->owned, words_bytes(op)); /* those of a grow have its id */
    tt_op_give(op);
  }
  atomic_fetch_sub(&parent->life.inside, 1);
  return result;
}

tuttiResult_t tt_split_start(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tuttiComm *parent = spec->parent;
  const struct color_key mine = {spec->color, spec->key};
  if (!tt_comm_enter(parent)) return tt_comm_aborted(parent);
  tuttiResult_t result = tt_comm_health(parent);
  if (result == tuttiSuccess) result = tt_child_gather(comm, TT_FORM_SPLIT, &mine, sizeof mine);
  tt_comm_exit(parent);
  return result;
}

/* ---- shrink ---- */

/* A place for one set more; a power of two of them has no room left. NULL: out of memory. */
static struct tt_shrinks *shrinks_add(struct tuttiComm *parent)
{
  uint32_t n = parent->life.nshrinks;
  if ((n & (n - 1)) == 0) {
    struct tt_shrinks *grown = tt_alloc(n ? 2 * (size_t)n : 1, sizeof *grown);
    if (!grown) return NULL;
    if (n) memcpy(grown, parent->life.shrinks, n * sizeof *grown);
    tt_free(parent->life.shrinks);
    parent->life.shrinks = grown;
  }
  return &parent->life.shrinks[parent->life.nshrinks++];
}

static struct tt_child_context try_context(const struct tt_attempt *try)
{
  return (struct tt_child_context){.how = TT_SHRINK, .number = try->number, .set = try->set};
}

/* Tries to shrink to other ranks do not count: not all that are left now have made the same ones before. Nor do those
 * that ended because lists were unlike: some of these ranks were in the other one then, or had not come yet. */
void tt_shrink_number(const struct tt_comm_spec *spec, struct tt_attempt *try)
{
  struct tuttiComm *parent = spec->parent;
  struct tt_shrinks *of = NULL;
  try->set = 1;
  for (int i = 0; i < spec->nexclude; i++) {
    struct tt_child_context rank = {.how = TT_SHRINK, .number = (uint64_t)spec->exclude[i]};
    try->set += startup_key(parent, &rank);
  }
  for (uint32_t i = 0; i < parent->life.nshrinks; i++)
    if (parent->life.shrinks[i].set == try->set) of = &parent->life.shrinks[i];
  if (!of) {
    of = shrinks_add(parent);
    if (of) *of = (struct tt_shrinks){.set = try->set};
  }
  struct tt_child_context context = {.how = TT_SHRINK, .number = 1, .set = try->set}; /* without memory: the first */
  do {
    if (of) context.number = ++of->tries;
    try->key = startup_key(parent, &context);
  } while (of && tt_watch_was_unlike(parent->parts.watch, try->key));
  try->number = of ? context.number : 0;
}

tuttiResult_t tt_shrink_start(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tuttiComm *parent = spec->parent;
  struct tt_creation *creation = comm->life.creation;
  struct tt_child_context context = try_context(&creation->try);
  if (!context.number) return tt_fail(tuttiSystemError, "out of memory for one shrink more");
  uint8_t *excluded = tt_alloc((size_t)parent->facts.first_nranks, 1);
  if (!excluded) return tt_fail(tuttiSystemError, "out of memory for %d ranks", parent->facts.first_nranks);
  for (int i = 0; i < spec->nexclude; i++) excluded[spec->exclude[i]] = 1;
  for (int32_t r = 0; r < parent->facts.first_nranks; r++) {
    if (r == parent->facts.first_rank) comm->facts.rank = comm->facts.nranks;
    if (!excluded[r]) creation->ranks[comm->facts.nranks++] = r;
  }
  tt_free(excluded);
  return child_begin(comm, &context);
}

/* Records why the parent ends, unless it has failed already: a rank is dead, or else this rank goes on without some. */
static void shrink_record(struct tuttiComm *parent, const int *exclude, int n)
{
  struct tt_watch *watch = parent->parts.watch;
  int own = parent->facts.first_rank;
  char sentence[TT_SENTENCE_BYTES], rank[128], other[128] = "";
  if (tt_watch_exclude(watch, exclude, n) || tt_comm_health(parent) != tuttiSuccess) return;
  if (n) tt_watch_rank_text(watch, exclude[0], other, sizeof other);
  tt_watch_rank_text(watch, own, rank, sizeof rank);
  int used = snprintf(sentence, sizeof sentence, "%s shrinks the communicator%s%s", rank,
                      n ? " to go on without " : "", other);
  if (n > 1) snprintf(sentence + used, sizeof sentence - (size_t)used, " and %d more", n - 1);
  tt_watch_fail(watch, tuttiRemoteError, n ? exclude[0] : own, 0, sentence);
}

tuttiResult_t tt_shrink_check(struct tuttiComm *parent, const int *exclude, int n, int aborts)
{
  tuttiResult_t refused = tt_views_refuse(parent, "shrinks");
  if (refused != tuttiSuccess) return refused;
  if (!aborts) {
    tuttiResult_t result = tt_comm_ready_check(parent);
    return result == tuttiSuccess && !atomic_load(&parent->life.revoked) ? tt_comm_health(parent) : result;
  }
  int state = atomic_load(&parent->life.state);
  if (state != TT_COMM_READY && state != TT_COMM_FINALIZED) return tt_comm_ready_check(parent);
  shrink_record(parent, exclude, n);
  return tuttiSuccess;
}
