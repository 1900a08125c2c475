/* SPDX-License-Identifier: BSD-3-Clause */
/* What the root makes of its guests' words: who sits where, rounds, and refusals. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/root.h"

const char *tt_rank_name(uint32_t rank, const struct tt_record *record, char *text)
{
  snprintf(text, TT_RANK_NAME_BYTES, "rank %u (pid %d on %s)", rank, (int)record->pid,
           record->host_name);
  return text;
}

int tt_seat_is_in(const void *owner, uint32_t rank)
{
  const struct tt_root *root = owner;
  const struct seat *seat = &root->seats[rank];
  if (root->came < root->nranks) return seat->state != SEAT_EMPTY;
  return seat->rounds > root->rounds;
}

/* ---- who sits where ---------------------------------------------------------------------- */

static int table_make(struct guest *guest)
{
  struct tt_root *root = guest->root;
  struct seat *seats = tt_alloc(guest->record.nranks, sizeof *seats);
  if (!seats) {
    tt_root_fail(root, tuttiSystemError, "no memory for the table of %u ranks", guest->record.nranks);
    return 0;
  }
  tt_descriptors_want(guest->record.nranks);
  root->seats = seats;
  root->nranks = root->least = guest->record.nranks;
  root->reference = guest->rank;
  return 1;
}

/* Two ranks that do not agree, by name. */
static void unlike_settings(struct tt_root *root, const struct tt_record *mine, const char *name,
                            const struct tt_record *first, const char *other)
{
  char settings[192];
  if (*tt_settings_unlike_text(mine->marks, first->marks, settings, sizeof settings))
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s and %s have unlike settings: %s must be the same there (or what it overrides in tuttiConfig_t)",
                 name, other, settings);
  else
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s and %s have unlike settings (hash %016llx and %016llx): those that `tutti info` "
                 "marks \"on all ranks\" must be the same there",
                 name, other, (unsigned long long)mine->agreement, (unsigned long long)first->agreement);
}

/* Fails the start-up if this guest's record is unlike the root's or the first rank's. */
static void agreement_check(struct guest *guest)
{
  struct tt_root *root = guest->root;
  const struct tt_record *mine = &guest->record;
  const struct tt_record *first = root->seats ? &root->seats[root->reference].record : &root->self;
  char name[TT_RANK_NAME_BYTES], other[TT_RANK_NAME_BYTES] = "the root";
  tt_rank_name(guest->rank, mine, name);
  if (root->seats) tt_rank_name(root->reference, first, other);
  if (mine->version != root->self.version)
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s uses version %u of Tutti, %s version %u: install the same one everywhere", name,
                 mine->version, other, root->self.version);
  else if (root->seats && mine->nranks != root->nranks)
    tt_root_fail(root, tuttiInvalidUsage,
                 "%s asks for %u ranks, %s for %u: nranks must be the same on all", name, mine->nranks,
                 other, root->nranks);
  else if (root->seats && mine->agreement != first->agreement) unlike_settings(root, mine, name, first, other);
}

/* The first claimant keeps the seat: a healthy start-up is not ended by a stray second one. */
static void claim_refuse(struct guest *guest, const struct seat *seat)
{
  struct tt_root *root = guest->root;
  char name[TT_RANK_NAME_BYTES];
  tt_rank_name(guest->rank, &seat->record, name);
  guest->sentence = tt_alloc(1, TT_SENTENCE_BYTES);
  if (!guest->sentence) {
    tt_guest_close(guest);
    return;
  }
  guest->code = tuttiInvalidUsage;
  snprintf(guest->sentence, TT_SENTENCE_BYTES,
           "rank %u is claimed twice with one id: by pid %d on %s, but %s came first: give every process "
           "its own rank, and every communicator its own id",
           guest->rank, (int)guest->record.pid, guest->record.host_name, name);
  snprintf(root->twice, sizeof root->twice, "; rank %u was claimed twice, again by pid %d",
           guest->rank, (int)guest->record.pid);
  tt_log(TT_LOG_INFO, "%s", guest->sentence);
  tt_guest_tell(guest, TT_START_FAILURE);
}

/* The rank has come before. With a fixed id it may be on its way to the next communicator; what its
 * first connection still has to say is heard before that is decided. */
static void claim_again(struct guest *guest)
{
  struct tt_root *root = guest->root;
  struct seat *seat = &root->seats[guest->rank];
  if (seat->guest) tt_guest_drain(seat->guest);
  int gone = seat->state == SEAT_LEFT || (root->code && !seat->guest);
  if (root->fixed && gone) tt_guest_tell(guest, TT_START_LATER);
  else if (root->code && seat->state != SEAT_LEFT) tt_guest_tell(guest, TT_START_FAILURE);
  else claim_refuse(guest, seat);
}

static void seat_take(struct guest *guest)
{
  struct tt_root *root = guest->root;
  struct seat *seat = &root->seats[guest->rank];
  seat->state = SEAT_TAKEN;
  seat->guest = guest;
  seat->record = guest->record;
  guest->seated = 1;
  root->came++;
}

/* With a fixed address the next communicator's ranks may knock while this one is being left. */
static int is_for_the_next(const struct tt_root *root)
{
  return root->fixed && (root->shut || (!root->code && root->nranks && root->came == root->nranks));
}

static int is_garbage(const struct guest *guest)
{
  const struct tt_record *record = &guest->record;
  return record->rank != guest->rank || record->nranks < 1 || record->nranks > TT_RANKS_MAX ||
         record->rank >= record->nranks;
}

void tt_seat_claim(struct guest *guest)
{
  struct tt_root *root = guest->root;
  if (!tt_record_is_whole(&guest->record)) {
    tt_log(TT_LOG_INFO, "the record of rank %u came damaged (wrong checksum): it is to come again", guest->rank);
    tt_guest_tell(guest, TT_START_LATER);
    return;
  }
  tt_record_clean(&guest->record);
  if (is_garbage(guest)) {
    tt_guest_close(guest);
    return;
  }
  int known = root->seats && guest->rank < root->nranks;
  if (known && root->seats[guest->rank].state != SEAT_EMPTY) {
    claim_again(guest);
    return;
  }
  if (is_for_the_next(root)) {
    tt_guest_tell(guest, TT_START_LATER);
    return;
  }
  if (!root->code) agreement_check(guest);
  if (!root->seats) known = table_make(guest);
  if (guest->record.nranks < root->least) root->least = guest->record.nranks;
  if (known) seat_take(guest); /* also after a failure: the root ends when all have heard of it */
  tt_root_miss(root);
  if (root->code) tt_guest_tell(guest, TT_START_FAILURE);
}

/* ---- rounds --------------------------------------------------------------------------------- */

/* A rank that said bye gives no more cards: whoever begins another round would wait for ever. */
static int round_is_possible(struct tt_root *root)
{
  char left[TT_RANK_NAME_BYTES], name[TT_RANK_NAME_BYTES];
  uint32_t gone = root->nranks, waits = root->nranks;
  if (!root->left || !root->arrived) return 1;
  for (uint32_t r = 0; r < root->nranks; r++) {
    if (root->seats[r].state == SEAT_LEFT) gone = r;
    if (root->seats[r].rounds > root->rounds) waits = r;
  }
  tt_root_fail(root, tuttiInternalError, "%s left the start-up after %u rounds, %s waits for another",
               tt_rank_name(gone, &root->seats[gone].record, left), root->rounds,
               tt_rank_name(waits, &root->seats[waits].record, name));
  return 0;
}

/* The first card of a round decides its length and kind. */
static int round_open(struct guest *guest, size_t len)
{
  struct tt_root *root = guest->root;
  unsigned half = root->rounds & 1;
  int is_broadcast = guest->head_in.kind == TT_START_SHARE;
  size_t need = is_broadcast ? len : len * root->nranks;
  if (root->room[half] < need) {
    uint8_t *cards = tt_alloc(1, need);
    if (!cards) {
      tt_root_fail(root, tuttiSystemError, "no memory for %zu bytes of %u ranks' cards", need,
                   root->nranks);
      return 0;
    }
    tt_free(root->cards[half]);
    root->cards[half] = cards;
    root->room[half] = need;
  }
  root->len = len;
  root->is_broadcast = is_broadcast;
  root->reference = guest->rank;
  return 1;
}

static const char *of_kind(int is_broadcast)
{
  return is_broadcast ? " from rank 0 to all" : "";
}

static void frame_damaged(struct guest *guest)
{
  char name[TT_RANK_NAME_BYTES];
  tt_root_fail(guest->root, tuttiRemoteError,
               "what %s sent for the start-up came damaged (wrong checksum): the network or a device on the way "
               "changes data; start again",
               tt_rank_name(guest->rank, &guest->record, name));
}

static void head_of_card(struct guest *guest)
{
  struct tt_root *root = guest->root;
  struct seat *seat = &root->seats[guest->rank];
  uint64_t len = guest->head_in.len;
  int early = seat->rounds != root->rounds || tt_outlet_busy(&guest->out);
  int is_broadcast = guest->head_in.kind == TT_START_SHARE;
  if (early || len < 1 || len > TT_CARD_BYTES) {
    tt_seat_lose(guest, "broke the protocol of the start-up");
    return;
  }
  if (!root->len && !round_open(guest, (size_t)len)) return;
  if (len != root->len || is_broadcast != root->is_broadcast) {
    char name[TT_RANK_NAME_BYTES], other[TT_RANK_NAME_BYTES];
    tt_root_fail(root, tuttiInvalidUsage, "in round %u %s gives %llu bytes%s, %s %zu%s", root->rounds,
                 tt_rank_name(guest->rank, &guest->record, name), (unsigned long long)len, of_kind(is_broadcast),
                 tt_rank_name(root->reference, &root->seats[root->reference].record, other),
                 root->len, of_kind(root->is_broadcast));
    return;
  }
  guest->stage = GUEST_CARD;
  uint8_t *cards = root->cards[root->rounds & 1];
  if (is_broadcast) tt_intake_set(&guest->in, cards, guest->rank == 0 ? root->len : 0);
  else tt_intake_set(&guest->in, cards + guest->rank * root->len, root->len);
}

void tt_seat_card(struct guest *guest)
{
  struct tt_root *root = guest->root;
  size_t at = root->is_broadcast ? 0 : guest->rank * root->len;
  size_t own = root->is_broadcast && guest->rank != 0 ? 0 : root->len;
  if (!tt_frame_fits(&guest->head_in, root->cards[root->rounds & 1] + at, own)) {
    frame_damaged(guest);
    return;
  }
  root->seats[guest->rank].rounds++;
  root->arrived++;
  if (!round_is_possible(root) || root->arrived < root->nranks) return;
  const uint8_t *cards = root->cards[root->rounds & 1];
  size_t len = root->is_broadcast ? root->len : root->len * root->nranks;
  struct tt_start_frame head = {.kind = TT_START_CARDS, .len = len};
  tt_frame_seal(&head, cards, len);
  root->rounds++;
  root->arrived = 0;
  root->len = 0;
  for (uint32_t r = 0; r < root->nranks; r++)
    if (root->seats[r].guest) tt_guest_send_cards(root->seats[r].guest, &head, cards);
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void seat_leave(struct guest *guest)
{
  struct tt_root *root = guest->root;
  struct seat *seat = &root->seats[guest->rank];
  if (!root->rounds || seat->rounds != root->rounds) {
    tt_seat_lose(guest, "left before the start-up was complete");
    return;
  }
  seat->state = SEAT_LEFT;
  seat->guest = NULL;
  root->left++;
  tt_guest_close(guest);
  round_is_possible(root);
}

void tt_seat_head(struct guest *guest)
{
  const struct tt_start_frame *head = &guest->head_in;
  if (!tt_frame_is_whole(head)) {
    frame_damaged(guest);
    return;
  }
  switch (head->kind) {
  case TT_START_CARD:
  case TT_START_SHARE:
    head_of_card(guest);
    return;
  case TT_START_BYE:
    seat_leave(guest);
    return;
  case TT_START_FAILURE:
    if (!guest->reason) guest->reason = tt_alloc(1, TT_SENTENCE_BYTES);
    if (!guest->reason || head->len != TT_SENTENCE_BYTES) break;
    guest->stage = GUEST_REASON;
    tt_intake_set(&guest->in, guest->reason, TT_SENTENCE_BYTES);
    return;
  default:
    break;
  }
  tt_seat_lose(guest, "broke the protocol of the start-up");
}

void tt_seat_reason(struct guest *guest)
{
  struct tt_root *root = guest->root;
  char name[TT_RANK_NAME_BYTES];
  uint32_t code = guest->head_in.code;
  if (!tt_frame_fits(&guest->head_in, guest->reason, TT_SENTENCE_BYTES)) {
    frame_damaged(guest);
    return;
  }
  int is_error = code > tuttiSuccess && code < tuttiInProgress;
  tt_text_clean(guest->reason, TT_SENTENCE_BYTES);
  guest->told = 1; /* it knows */
  tt_root_fail(root, is_error ? (tuttiResult_t)code : tuttiRemoteError, "%s gave up: %s",
               tt_rank_name(guest->rank, &guest->record, name), guest->reason);
  shutdown(guest->watcher.fd, SHUT_WR); /* it may wait until the others were told */
}

void tt_seat_lose(struct guest *guest, const char *how)
{
  struct tt_root *root = guest->root;
  int error = errno;
  tt_guest_close(guest);
  if (!guest->seated) return;
  struct seat *seat = &root->seats[guest->rank];
  seat->state = SEAT_LOST;
  seat->guest = NULL;
  root->lost++;
  if (root->code) return;
  char name[TT_RANK_NAME_BYTES];
  tt_rank_name(guest->rank, &guest->record, name);
  if (!how && tt_record_is_dead(&guest->record, &root->self)) how = "died";
  if (how)
    tt_root_fail(root, tuttiRemoteError, "%s %s during start-up", name, how);
  else
    tt_root_fail(root, tuttiRemoteError, "%s ended its connection during start-up (%s): it died or gave up",
                 name, error ? strerror(error) : "closed");
}
