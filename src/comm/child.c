/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made from others: split and shrink.
 *
 * Who belongs to the child is known on each of its ranks: after an all-gather of colors and keys over the parent, or
 * from the list of excluded ranks. From there on it is made like any other, but for its id, which nobody has to send:
 * its key is derived from the parent's, and its root stands at the door that the child's first rank has had since
 * the parent was made. So a shrink needs nothing of a parent that has failed. */
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "comm/creation.h"

enum { SPLIT = 1, SHRINK = 2 };

/* What makes one child's key differ from another's: only what its ranks know alike. */
struct context {
  uint32_t how;
  int32_t color;           /* of a split */
  uint64_t number;         /* of the split's all-gather; of the try to shrink to these ranks */
  const uint8_t *excluded; /* of a shrink: 1 for each of the parent's ranks that is left out */
};

static void id_derive(const struct tuttiComm *parent, const struct context *context, int root, struct tt_id *id)
{
  uint8_t key[TT_KEY_BYTES], job[TT_KEY_BYTES];
  *id = (struct tt_id){.flags = TT_ID_MIXED | TT_ID_DERIVED};
  size_t len = offsetof(struct context, excluded);
  size_t nexcluded = context->excluded ? (size_t)parent->nranks : 0;
  tt_key_derive(key, parent->pass.key, "tutti-child", context, len);
  tt_key_derive(id->pass.key, key, "tutti-child-ranks", context->excluded, nexcluded);
  tt_key_derive(job, id->pass.key, "tutti-child-job", context, len);
  memcpy(id->pass.job, job, sizeof id->pass.job);
  id->pass.epoch = parent->pass.epoch + 1;
  tt_address_unpack(&id->root, parent->doors + (size_t)root * TT_ADDRESS_PACKED_BYTES);
}

/* A topology file is about the ranks of the first parent: a child takes its part of that. */
static tuttiResult_t topology_take(struct tuttiComm *comm, const struct tuttiComm *parent, const int32_t *members)
{
  const struct tt_topology *whole = &parent->topology;
  if (!comm->settings.topology[0]) return tuttiSuccess;
  uint64_t *nodes = tt_alloc((size_t)comm->nranks, sizeof *nodes);
  struct tt_locality *localities = tt_alloc((size_t)comm->nranks, sizeof *localities);
  tuttiResult_t result = tuttiSystemError;
  for (int r = 0; nodes && localities && r < comm->nranks; r++) {
    nodes[r] = (uint64_t)whole->node[members[r]];
    localities[r] = (struct tt_locality){whole->numa[members[r]], whole->cache[members[r]]};
  }
  if (nodes && localities) result = tt_topology_make(&comm->topology, comm->nranks, nodes, localities);
  else tt_fail(result, "out of memory for the topology of %d ranks", comm->nranks);
  tt_free(nodes);
  tt_free(localities);
  return result;
}

/* Goes on with ranks known: `members` are the parent's ranks in the child's order. */
static tuttiResult_t child_begin(struct tuttiComm *comm, const struct tuttiComm *parent, const int32_t *members,
                                 const struct context *context)
{
  struct tt_creation *creation = comm->creation;
  id_derive(parent, context, members[0], &creation->id);
  creation->is_child = 1;
  memcpy(comm->corrected, parent->corrected, sizeof comm->corrected);
  tuttiResult_t result = topology_take(comm, parent, members);
  if (comm->rank == 0 && result == tuttiSuccess) result = tt_id_open_root(&creation->id, &comm->settings);
  return result == tuttiSuccess ? tt_creation_start(comm) : result;
}

/* ---- split ---- */

struct wish {
  int32_t color, key;
};

/* Appends what the ranks said to the parent's queue; the caller drives it. */
static tuttiResult_t wishes_gather(struct tuttiComm *comm, struct tuttiComm *parent, const struct wish *mine)
{
  struct tt_creation *creation = comm->creation;
  size_t n = (size_t)parent->nranks;
  struct wish *wishes = tt_alloc(n + 1, sizeof *mine);
  if (!wishes) return tt_fail(tuttiSystemError, "out of memory for the colors of %d ranks", parent->nranks);
  wishes[n] = *mine;
  struct tt_binding binding = {
      .call = {.count = sizeof *mine,
               .collective = TT_ALL_GATHER,
               .type = tuttiUint8,
               .root = -1,
               .form = TT_FORM_SPLIT},
      .in = &wishes[n],
      .out = wishes,
      .before = 1};
  creation->op = tt_op_take(parent, NULL, &binding);
  if (!creation->op) {
    tt_free(wishes);
    return tt_comm_give_up(parent, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  }
  creation->op->owned = wishes;
  creation->op->next_of_group = NULL;
  creation->stage = SPLITTING;
  tt_ops_submit(creation->op);
  return tuttiSuccess;
}

/* Ranks of one color, by key, then by rank; -1 behind them. */
static int members_sort(const struct wish *wishes, int nranks, int32_t color, int32_t *members)
{
  int n = 0;
  for (int32_t r = 0; r < nranks; r++) {
    int at = n;
    if (wishes[r].color != color) continue;
    while (at && wishes[members[at - 1]].key > wishes[r].key) at--;
    memmove(&members[at + 1], &members[at], (size_t)(n - at) * sizeof *members);
    members[at] = r;
    n++;
  }
  return n;
}

static tuttiResult_t wishes_take(struct tuttiComm *comm, const struct tt_op *op)
{
  const struct wish *wishes = op->owned;
  struct tuttiComm *parent = op->comm;
  struct context context = {.how = SPLIT, .number = op->binding.call.op, .color = wishes[parent->rank].color};
  if (context.color == TUTTI_SPLIT_NOCOLOR) {
    comm->is_none = 1;
    atomic_store_explicit(&comm->state, TT_COMM_STILLBORN, memory_order_release);
    return tuttiSuccess;
  }
  int32_t *members = tt_alloc((size_t)parent->nranks + 1, sizeof *members);
  if (!members) return tt_fail(tuttiSystemError, "out of memory for %d ranks", parent->nranks);
  comm->nranks = members_sort(wishes, parent->nranks, context.color, members);
  while (members[comm->rank] != parent->rank) comm->rank++;
  tuttiResult_t result = child_begin(comm, parent, members, &context);
  tt_free(members);
  return result;
}

/* As tt_comm_enter; several children of one parent may be polled by the caller and by the progress thread at once. */
static int parent_enter(struct tuttiComm *parent)
{
  atomic_fetch_add(&parent->inside, 1);
  if (!atomic_load(&parent->aborting)) return 1;
  atomic_fetch_sub(&parent->inside, 1);
  return 0;
}

tuttiResult_t tt_split_poll(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->creation;
  struct tuttiComm *parent = creation->parent;
  struct tt_op *op = creation->op;
  if (!parent_enter(parent)) return tt_comm_aborted(parent);
  if (!atomic_load_explicit(&op->done, memory_order_acquire)) tt_comm_drive(parent, 1);
  int done = atomic_load_explicit(&op->done, memory_order_acquire);
  tuttiResult_t result = tuttiInProgress;
  if (done) {
    result = op->result == tuttiSuccess ? wishes_take(comm, op) : tt_comm_why(parent);
    creation->op = NULL;
    tt_op_give(op);
  }
  atomic_fetch_sub(&parent->inside, 1);
  return result;
}

tuttiResult_t tt_split_start(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tuttiComm *parent = spec->parent;
  const struct wish mine = {spec->color, spec->key};
  if (!tt_comm_enter(parent)) return tt_comm_aborted(parent);
  comm->creation->parent = parent;
  tuttiResult_t result = tt_comm_health(parent);
  if (result == tuttiSuccess) result = wishes_gather(comm, parent, &mine);
  tt_comm_exit(parent);
  return result;
}

/* ---- shrink ---- */

/* A place for one set more; a power of two of them has no room left. NULL: out of memory. */
static struct tt_shrinks *shrinks_add(struct tuttiComm *parent)
{
  uint32_t n = parent->nshrinks;
  if ((n & (n - 1)) == 0) {
    struct tt_shrinks *grown = tt_alloc(n ? 2 * (size_t)n : 1, sizeof *grown);
    if (!grown) return NULL;
    if (n) memcpy(grown, parent->shrinks, n * sizeof *grown);
    tt_free(parent->shrinks);
    parent->shrinks = grown;
  }
  return &parent->shrinks[parent->nshrinks++];
}

/* How often this rank has begun to shrink to these ranks, with this time; 0: out of memory. Shrinks to others do not
 * count: not all that are left now have made the same ones before. */
static uint32_t try_count(struct tuttiComm *parent, const uint8_t *excluded)
{
  uint8_t digest[TT_KEY_BYTES];
  uint64_t set;
  tt_key_derive(digest, parent->pass.key, "tutti-shrink-set", excluded, (size_t)parent->nranks);
  memcpy(&set, digest, sizeof set);
  for (uint32_t i = 0; i < parent->nshrinks; i++)
    if (parent->shrinks[i].set == set) return ++parent->shrinks[i].tries;
  struct tt_shrinks *added = shrinks_add(parent);
  if (added) *added = (struct tt_shrinks){set, 1};
  return added ? 1 : 0;
}

tuttiResult_t tt_shrink_start(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tuttiComm *parent = spec->parent;
  int32_t *members = tt_alloc((size_t)parent->nranks, sizeof *members);
  uint8_t *excluded = tt_alloc((size_t)parent->nranks, 1);
  tuttiResult_t result = tuttiSuccess;
  if (!members || !excluded) result = tt_fail(tuttiSystemError, "out of memory for %d ranks", parent->nranks);
  for (int i = 0; result == tuttiSuccess && i < spec->nexclude; i++) excluded[spec->exclude[i]] = 1;
  for (int32_t r = 0; result == tuttiSuccess && r < parent->nranks; r++) {
    if (r == parent->rank) comm->rank = comm->nranks;
    if (!excluded[r]) members[comm->nranks++] = r;
  }
  if (result == tuttiSuccess) {
    struct context context = {.how = SHRINK, .number = try_count(parent, excluded), .excluded = excluded};
    result = context.number ? child_begin(comm, parent, members, &context)
                            : tt_fail(tuttiSystemError, "out of memory for one shrink more");
  }
  tt_free(members);
  tt_free(excluded);
  return result;
}
