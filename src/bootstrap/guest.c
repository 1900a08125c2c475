/* SPDX-License-Identifier: BSD-3-Clause */
/* The root's connections: bytes in, bytes out. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bootstrap/root.h"

/* After the last frame only the end of the connection matters, so that closing does not
 * destroy that frame on its way (a close with unread bytes resets the connection). */
static void guest_discard(struct guest *guest)
{
  tt_intake_set(&guest->in, &guest->record, sizeof guest->record);
  guest->stage = GUEST_RECORD;
}

static void outlet_load(struct guest *guest)
{
  struct tt_root *root = guest->root;
  uint32_t kind = (uint32_t)guest->told_next;
  const char *sentence = guest->sentence ? guest->sentence : root->sentence;
  uint32_t code = guest->sentence ? guest->code : (uint32_t)root->code;
  int fails = kind == TT_START_FAILURE;
  guest->told_next = 0;
  guest->head_out = (struct tt_start_frame){.kind = kind, .code = fails ? code : 0};
  guest->head_out.len = fails ? TT_SENTENCE_BYTES : 0;
  tt_frame_seal(&guest->head_out, sentence, (size_t)guest->head_out.len);
  tt_outlet_set(&guest->out, &guest->head_out, sizeof guest->head_out, sentence,
                (size_t)guest->head_out.len);
}

/* A broken connection is noticed by the next read. */
static void guest_push(struct guest *guest)
{
  if (guest->watcher.fd < 0) return;
  int state = tt_outlet_write(&guest->out, guest->watcher.fd);
  while (state == 1 && guest->told_next) {
    outlet_load(guest);
    state = tt_outlet_write(&guest->out, guest->watcher.fd);
  }
  if (state == 1 && guest->told) shutdown(guest->watcher.fd, SHUT_WR);
  if (guest->full == (state == 0)) return;
  guest->full = state == 0;
  tt_watcher_change(&guest->watcher, guest->full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void tt_guest_tell(struct guest *guest, enum tt_start_frame_kind kind)
{
  if (guest->watcher.fd < 0 || guest->told) return;
  guest->told = 1;
  guest->told_next = kind;
  guest_discard(guest);
  guest_push(guest);
}

void tt_guest_send_cards(struct guest *guest, const struct tt_start_frame *head, const uint8_t *cards)
{
  guest->head_out = *head;
  tt_outlet_set(&guest->out, &guest->head_out, sizeof guest->head_out, cards, (size_t)head->len);
  guest_push(guest);
}

static void guest_item(struct guest *guest)
{
  enum guest_stage stage = guest->stage;
  if (guest->told) {
    guest_discard(guest);
    return;
  }
  guest->stage = GUEST_HEAD;
  tt_intake_set(&guest->in, &guest->head_in, sizeof guest->head_in);
  switch (stage) {
  case GUEST_RECORD: tt_seat_claim(guest); break;
  case GUEST_HEAD: tt_seat_head(guest); break;
  case GUEST_CARD: tt_seat_card(guest); break;
  case GUEST_REASON: tt_seat_reason(guest); break;
  }
}

static void guest_read(struct guest *guest)
{
  while (guest->watcher.fd >= 0) {
    int state = tt_intake_read(&guest->in, guest->watcher.fd);
    if (state == 0) return;
    if (state == 1) guest_item(guest);
    else tt_seat_lose(guest, NULL);
  }
}

void tt_guest_drain(struct guest *guest)
{
  guest_read(guest);
}

static void guest_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct guest *guest = (struct guest *)(void *)watcher;
  struct tt_root *root = guest->root;
  if (events & EPOLLOUT) guest_push(guest);
  guest_read(guest);
  tt_root_settle(root);
}

void tt_guest_come(void *owner, const struct tt_hello *hello, int fd)
{
  struct tt_root *root = owner;
  struct guest *guest = NULL;
  if (root->guest_count < 2 * TT_RANKS_MAX) guest = tt_alloc(1, sizeof *guest);
  if (!guest) {
    close(fd); /* the rank comes again */
    return;
  }
  guest->root = root;
  guest->rank = hello->src;
  guest->watcher = (struct tt_watcher){.fd = fd, .ready = guest_ready};
  tt_intake_set(&guest->in, &guest->record, sizeof guest->record);
  tt_outlet_set(&guest->out, &root->self, sizeof root->self, NULL, 0);
  tt_socket_guard(fd, root->unreachable_ms);
  if (tt_watcher_add(&guest->watcher, EPOLLIN) != tuttiSuccess) {
    close(fd);
    tt_free(guest);
    return;
  }
  guest->next = root->guests;
  root->guests = guest;
  root->guest_count++;
  tt_root_first(root);
  guest_push(guest);
}

void tt_guest_close(struct guest *guest)
{
  if (guest->watcher.fd < 0) return;
  tt_watcher_remove(&guest->watcher);
  close(guest->watcher.fd);
  guest->watcher.fd = -1;
}

void tt_guests_sweep(struct tt_root *root)
{
  for (struct guest **at = &root->guests; *at;) {
    struct guest *guest = *at;
    if (guest->watcher.fd >= 0) {
      at = &guest->next;
      continue;
    }
    *at = guest->next;
    root->guest_count--;
    tt_free(guest->reason);
    tt_free(guest->sentence);
    tt_free(guest);
  }
}
