/* SPDX-License-Identifier: BSD-3-Clause */
/* The root's handling of its clients' frames: ranks and their slots, rounds, and refusals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/root_private.h"

const char *tt_rank_name(uint32_t rank, const struct tt_record *record, char *text)
{
  snprintf(text, TT_RANK_NAME_BYTES, "rank %u (pid %d on %s)", rank, (int)record->pid,
           record->host_name);
  return text;
}

int tt_rank_slot_is_in(const void *owner, uint32_t rank)
{
  const struct tt_root *root = owner;
  const struct slot *slot = &root->slots[rank];
  if (root->came < root->nranks) return slot->state != SLOT_EMPTY;
  return slot->rounds > root->rounds;
}

/* ---- ranks and their slots ---------------------------------------------------------------- */

static int table_make(struct client *client)
{
  struct tt_root *root = client->root;
  struct slot *slots = tt_alloc(client->record.nranks, sizeof *slots);
  if (!slots) {
    tt_root_fail(root, tuttiSystemError, "no memory for the table of %u ranks", client->record.nranks);
    return 0;
  }
  tt_descriptors_want(client->record.nranks);
  root->slots = slots;
  root->nranks = root->least = client->record.nranks;
  root->reference = client->rank;
  return 1;
}

/* Fails the start-up with the names of two ranks whose settings differ. */
static void unlike_settings(struct tt_root *root, const struct tt_record *mine, const char *name,
                            const struct tt_record *first, const char *other)
{
  char settings[192];
  if (*tt_settings_unlike_text(mine->marks, first->marks, settings, sizeof settings))
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s and %s have unlike settings: %s must be the same there (or the field of a config it overrides)",
                 name, other, settings);
  else
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s and %s have unlike settings (hash %016llx and %016llx): those that `tutti info` "
                 "marks \"on all ranks\" must be the same there",
                 name, other, (unsigned long long)mine->agreement, (unsigned long long)first->agreement);
}

/* Fails the start-up if this client's record is unlike the root's or the first rank's. */
static void agreement_check(struct client *client)
{
  struct tt_root *root = client->root;
  const struct tt_record *mine = &client->record;
  const struct tt_record *first = root->slots ? &root->slots[root->reference].record : &root->self;
  char name[TT_RANK_NAME_BYTES], other[TT_RANK_NAME_BYTES] = "the root";
  char theirs[TT_VERSIONS_TEXT_BYTES], ours[TT_VERSIONS_TEXT_BYTES];
  tt_rank_name(client->rank, mine, name);
  if (root->slots) tt_rank_name(root->reference, first, other);
  if (mine->version != root->self.version)
    tt_root_fail(root, tuttiInvalidUsage, "%s has %s, and %s has %s: install the same version everywhere", name,
                 tt_versions_text((struct tt_versions){tt_versions_ours().wire, mine->version}, theirs), other,
                 tt_versions_text(tt_versions_ours(), ours));
  else if (root->slots && mine->nranks != root->nranks)
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s asks for %u ranks, %s for %u: nranks must be the same on all", name, mine->nranks,
                 other, root->nranks);
  else if (root->slots && mine->agreement != first->agreement) unlike_settings(root, mine, name, first, other);
}

/* The first claimant keeps the slot, so that a stray second one does not end a healthy start-up. */
static void claim_refuse(struct client *client, const struct slot *slot)
{
  struct tt_root *root = client->root;
  char name[TT_RANK_NAME_BYTES];
  tt_rank_name(client->rank, &slot->record, name);
  client->sentence = tt_alloc(1, TT_SENTENCE_BYTES);
  if (!client->sentence) {
    tt_client_close(client);
    return;
  }
  client->code = tuttiInvalidUsage;
  snprintf(client->sentence, TT_SENTENCE_BYTES,
           "rank %u is claimed twice with one id: by pid %d on %s, but %s came first: give every process "
           "its own rank, and every communicator its own id",
           client->rank, (int)client->record.pid, client->record.host_name, name);
  snprintf(root->twice, sizeof root->twice, "; rank %u was claimed twice, again by pid %d",
           client->rank, (int)client->record.pid);
  tt_log(TT_LOG_INFO, "%s", client->sentence);
  tt_client_tell(client, TT_START_FAILURE);
}

/* The rank has come before. With a fixed id it may be on its way to the next communicator; its first connection is
 * read to the end before that is decided. */
static void claim_again(struct client *client)
{
  struct tt_root *root = client->root;
  struct slot *slot = &root->slots[client->rank];
  if (slot->client) tt_client_drain(slot->client);
  int gone = slot->state == SLOT_LEFT || (root->code && !slot->client);
  if (root->fixed && gone) tt_client_tell(client, TT_START_LATER);
  else if (root->code && slot->state != SLOT_LEFT) tt_client_tell(client, TT_START_FAILURE);
  else claim_refuse(client, slot);
}

static void slot_take(struct client *client)
{
  struct tt_root *root = client->root;
  struct slot *slot = &root->slots[client->rank];
  slot->state = SLOT_TAKEN;
  slot->client = client;
  slot->record = client->record;
  client->has_slot = 1;
  root->came++;
}

/* With a fixed address the next communicator's ranks may dial while ranks still leave this one. */
static int is_for_the_next(const struct tt_root *root)
{
  return root->fixed && (root->shut || (!root->code && root->nranks && root->came == root->nranks));
}

static int is_garbage(const struct client *client)
{
  const struct tt_record *record = &client->record;
  return record->rank != client->rank || record->nranks < 1 || record->nranks > TT_RANKS_MAX ||
         record->rank >= record->nranks;
}

void tt_rank_slot_claim(struct client *client)
{
  struct tt_root *root = client->root;
  if (!tt_record_is_whole(&client->record, &client->session.in)) {
    tt_log(TT_LOG_INFO, "the record of rank %u came damaged (wrong tag): it is to come again", client->rank);
    tt_client_tell(client, TT_START_LATER);
    return;
  }
  tt_record_clean(&client->record);
  if (is_garbage(client)) {
    tt_client_close(client);
    return;
  }
  int known = root->slots && client->rank < root->nranks;
  if (known && root->slots[client->rank].state != SLOT_EMPTY) {
    claim_again(client);
    return;
  }
  if (is_for_the_next(root)) {
    tt_client_tell(client, TT_START_LATER);
    return;
  }
  if (!root->code) agreement_check(client);
  if (!root->slots) known = table_make(client);
  if (client->record.nranks < root->least) root->least = client->record.nranks;
  if (known) slot_take(client); /* also after a failure, because the root ends when all have heard of it */
  tt_root_miss(root);
  if (root->code) tt_client_tell(client, TT_START_FAILURE);
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* A rank that said bye gives no more peer infos, so a rank that begins another round would wait for ever. */
static int round_is_possible(struct tt_root *root)
{
  char left[TT_RANK_NAME_BYTES], name[TT_RANK_NAME_BYTES];
  uint32_t gone = root->nranks, waits = root->nranks;
  if (!root->left || !root->arrived) return 1;
  for (uint32_t r = 0; r < root->nranks; r++) {
    if (root->slots[r].state == SLOT_LEFT) gone = r;
    if (root->slots[r].rounds > root->rounds) waits = r;
  }
  tt_root_fail(root, tuttiInternalError, "%s left the start-up after %u rounds, %s waits for another",
               tt_rank_name(gone, &root->slots[gone].record, left), root->rounds,
               tt_rank_name(waits, &root->slots[waits].record, name));
  return 0;
}

/* The first peer info of a round decides its length and kind. */
static int round_open(struct client *client, size_t len)
{
  struct tt_root *root = client->root;
  unsigned half = root->rounds & 1;
  int is_broadcast = client->head_in.kind == TT_START_SHARE;
  size_t need = is_broadcast ? len : len * root->nranks;
  if (root->room[half] < need) {
    uint8_t *peer_infos = tt_alloc(1, need);
    if (!peer_infos) {
      tt_root_fail(root, tuttiSystemError, "no memory for %zu bytes of %u ranks' peer infos", need,
                   root->nranks);
      return 0;
    }
    tt_free(root->peer_infos[half]);
    root->peer_infos[half] = peer_infos;
    root->room[half] = need;
  }
  root->len = len;
  root->is_broadcast = is_broadcast;
  root->reference = client->rank;
  return 1;
}

static const char *of_kind(int is_broadcast)
{
  return is_broadcast ? " from rank 0 to all" : "";
}

static void frame_damaged(struct client *client)
{
  char name[TT_RANK_NAME_BYTES];
  tt_root_fail(client->root, tuttiRemoteError,
               "what %s sent for the start-up " TT_DAMAGED "; start again",
               tt_rank_name(client->rank, &client->record, name));
}

static void head_of_peer_info(struct client *client)
{
  struct tt_root *root = client->root;
  struct slot *slot = &root->slots[client->rank];
  uint64_t len = client->head_in.len;
  int early = slot->rounds != root->rounds || tt_outlet_busy(&client->out);
  int is_broadcast = client->head_in.kind == TT_START_SHARE;
  if (early || len < 1 || len > TT_PEER_INFO_BYTES) {
    tt_rank_slot_lose(client, "broke the protocol of the start-up");
    return;
  }
  if (!root->len && !round_open(client, (size_t)len)) return;
  if (len != root->len || is_broadcast != root->is_broadcast) {
    char name[TT_RANK_NAME_BYTES], other[TT_RANK_NAME_BYTES];
    tt_root_fail(root, tuttiInvalidUsage, "in round %u %s gives %llu bytes%s, %s %zu%s", root->rounds,
                 tt_rank_name(client->rank, &client->record, name), (unsigned long long)len, of_kind(is_broadcast),
                 tt_rank_name(root->reference, &root->slots[root->reference].record, other),
                 root->len, of_kind(root->is_broadcast));
    return;
  }
  client->stage = CLIENT_PEER_INFO;
  uint8_t *peer_infos = root->peer_infos[root->rounds & 1];
  if (is_broadcast) tt_intake_set(&client->in, peer_infos, client->rank == 0 ? root->len : 0);
  else tt_intake_set(&client->in, peer_infos + client->rank * root->len, root->len);
}

void tt_rank_slot_peer_info(struct client *client)
{
  struct tt_root *root = client->root;
  size_t at = root->is_broadcast ? 0 : client->rank * root->len;
  size_t own = root->is_broadcast && client->rank != 0 ? 0 : root->len;
  if (!tt_frame_fits(&client->head_in, root->peer_infos[root->rounds & 1] + at, own)) {
    frame_damaged(client);
    return;
  }
  root->slots[client->rank].rounds++;
  root->arrived++;
  if (!round_is_possible(root) || root->arrived < root->nranks) return;
  const uint8_t *peer_infos = root->peer_infos[root->rounds & 1];
  size_t len = root->is_broadcast ? root->len : root->len * root->nranks;
  struct tt_start_frame head = {.kind = TT_START_PEER_INFOS, .len = len};
  tt_frame_digest(&head, peer_infos, len);
  root->rounds++;
  root->arrived = 0;
  root->len = 0;
  for (uint32_t r = 0; r < root->nranks; r++)
    if (root->slots[r].client) tt_client_send_peer_infos(root->slots[r].client, &head, peer_infos);
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void slot_leave(struct client *client)
{
  struct tt_root *root = client->root;
  struct slot *slot = &root->slots[client->rank];
  if (!root->rounds || slot->rounds != root->rounds) {
    tt_rank_slot_lose(client, "left before the start-up was complete");
    return;
  }
  slot->state = SLOT_LEFT;
  slot->client = NULL;
  root->left++;
  tt_client_close(client);
  round_is_possible(root);
}

void tt_rank_slot_head(struct client *client)
{
  const struct tt_start_frame *head = &client->head_in;
  if (!tt_frame_is_whole(head, &client->session.in)) {
    frame_damaged(client);
    return;
  }
  switch (head->kind) {
  case TT_START_PEER_INFO:
  case TT_START_SHARE:
    head_of_peer_info(client);
    return;
  case TT_START_BYE:
    slot_leave(client);
    return;
  case TT_START_FAILURE:
    if (!client->reason) client->reason = tt_alloc(1, TT_SENTENCE_BYTES);
    if (!client->reason || head->len != TT_SENTENCE_BYTES) break;
    client->stage = CLIENT_REASON;
    tt_intake_set(&client->in, client->reason, TT_SENTENCE_BYTES);
    return;
  default:
    break;
  }
  tt_rank_slot_lose(client, "broke the protocol of the start-up");
}

void tt_rank_slot_reason(struct client *client)
{
  struct tt_root *root = client->root;
  char name[TT_RANK_NAME_BYTES];
  uint32_t code = client->head_in.code;
  if (!tt_frame_fits(&client->head_in, client->reason, TT_SENTENCE_BYTES)) {
    frame_damaged(client);
    return;
  }
  int is_error = code > tuttiSuccess && code < tuttiInProgress;
  tt_text_clean(client->reason, TT_SENTENCE_BYTES);
  client->told = 1; /* the client knows already */
  tt_root_fail(root, is_error ? (tuttiResult_t)code : tuttiRemoteError, "%s gave up: %s",
               tt_rank_name(client->rank, &client->record, name), client->reason);
  shutdown(client->watcher.fd, SHUT_WR); /* the client may be waiting for the others to be told */
}

void tt_rank_slot_lose(struct client *client, const char *how)
{
  struct tt_root *root = client->root;
  int error = errno;
  tt_client_close(client);
  if (!client->has_slot) return;
  struct slot *slot = &root->slots[client->rank];
  slot->state = SLOT_LOST;
  slot->client = NULL;
  root->lost++;
  if (root->code) return;
  char name[TT_RANK_NAME_BYTES];
  tt_rank_name(client->rank, &client->record, name);
  if (!how && tt_record_is_dead(&client->record, &root->self)) how = "died";
  if (how)
    tt_root_fail(root, tuttiRemoteError, "%s %s during start-up", name, how);
  else
    tt_root_fail(root, tuttiRemoteError, "%s ended its connection during start-up (%s): it died or gave up",
                 name, error ? strerror(error) : "closed");
}
