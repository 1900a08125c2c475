/* SPDX-License-Identifier: BSD-3-Clause */
/* The root's connections: bytes in, bytes out. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bootstrap/root_private.h"

/* After the last frame the client's bytes are read and dropped until the connection ends: a close with unread bytes
 * would reset the connection and destroy that frame on its way. */
static void client_discard(struct client *client)
{
  tt_intake_set(&client->in, &client->record, sizeof client->record);
  client->stage = CLIENT_RECORD;
}

static void outlet_load(struct client *client)
{
  struct tt_root *root = client->root;
  uint32_t kind = (uint32_t)client->told_next;
  const char *sentence = client->sentence ? client->sentence : root->sentence;
  uint32_t code = client->sentence ? client->code : (uint32_t)root->code;
  int fails = kind == TT_START_FAILURE;
  client->told_next = 0;
  client->head_out = (struct tt_start_frame){.kind = kind, .code = fails ? code : 0};
  client->head_out.len = fails ? TT_SENTENCE_BYTES : 0;
  tt_frame_digest(&client->head_out, sentence, (size_t)client->head_out.len);
  tt_frame_seal(&client->head_out, &client->session.out);
  tt_outlet_set(&client->out, &client->head_out, sizeof client->head_out, sentence,
                (size_t)client->head_out.len);
}

/* A broken connection is noticed by the next read. */
static void client_push(struct client *client)
{
  if (client->watcher.fd < 0) return;
  int state = tt_outlet_write(&client->out, client->watcher.fd);
  while (state == 1 && client->told_next) {
    outlet_load(client);
    state = tt_outlet_write(&client->out, client->watcher.fd);
  }
  if (state == 1 && client->told) shutdown(client->watcher.fd, SHUT_WR);
  if (client->full == (state == 0)) return;
  client->full = state == 0;
  tt_watcher_change(&client->watcher, client->full ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

void tt_client_tell(struct client *client, enum tt_start_frame_kind kind)
{
  if (client->watcher.fd < 0 || client->told) return;
  client->told = 1;
  client->told_next = (int)kind;
  client_discard(client);
  client_push(client);
}

void tt_client_send_peer_infos(struct client *client, const struct tt_start_frame *head, const uint8_t *peer_infos)
{
  client->head_out = *head;
  tt_frame_seal(&client->head_out, &client->session.out);
  tt_outlet_set(&client->out, &client->head_out, sizeof client->head_out, peer_infos, (size_t)head->len);
  client_push(client);
}

static void client_item(struct client *client)
{
  enum client_stage stage = client->stage;
  if (client->told) {
    client_discard(client);
    return;
  }
  client->stage = CLIENT_HEAD;
  tt_intake_set(&client->in, &client->head_in, sizeof client->head_in);
  switch (stage) {
  case CLIENT_RECORD: tt_rank_slot_claim(client); break;
  case CLIENT_HEAD: tt_rank_slot_head(client); break;
  case CLIENT_PEER_INFO: tt_rank_slot_peer_info(client); break;
  case CLIENT_REASON: tt_rank_slot_reason(client); break;
  }
}

static void client_read(struct client *client)
{
  while (client->watcher.fd >= 0) {
    int state = tt_intake_read(&client->in, client->watcher.fd);
    if (state == 0) return;
    if (state == 1) client_item(client);
    else tt_rank_slot_lose(client, NULL);
  }
}

void tt_client_drain(struct client *client)
{
  client_read(client);
}

static void client_ready(struct tt_watcher *watcher, uint32_t events)
{
  struct client *client = (struct client *)(void *)watcher;
  struct tt_root *root = client->root;
  if (events & EPOLLOUT) client_push(client);
  client_read(client);
  tt_root_settle(root);
}

/* A rank of another version would not understand a word: the start-up has failed for all. */
static void foreign_came(struct tt_root *root, const struct tt_hello *hello)
{
  char theirs[TT_VERSIONS_TEXT_BYTES], ours[TT_VERSIONS_TEXT_BYTES];
  tt_root_first(root);
  int is_told = hello->versions.library != 0; /* else it comes again before it believes it */
  if (is_told && hello->src < 64) root->unlike |= (uint64_t)1 << hello->src;
  tt_root_fail(root, tuttiInvalidUsage, "rank %u has %s, and the start-up's root (pid %d on %s) has %s: install the "
               "same version everywhere", hello->src, tt_versions_text(hello->versions, theirs), (int)root->self.pid,
               root->self.host_name, tt_versions_text(tt_versions_ours(), ours));
  tt_root_settle(root);
}

void tt_client_come(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  struct tt_root *root = owner;
  struct client *client = NULL;
  if (fd < 0) {
    foreign_came(root, hello);
    return;
  }
  int is_another = root->derived && hello->src != hello->dst; /* with the key of one rank, in the name of another */
  if (!is_another && root->client_count < 2 * TT_RANKS_MAX) client = tt_alloc(1, sizeof *client);
  if (!client) {
    close(fd); /* the rank comes again */
    return;
  }
  client->root = root;
  client->rank = hello->src;
  client->watcher = (struct tt_watcher){.fd = fd, .ready = client_ready};
  tt_intake_set(&client->in, &client->record, sizeof client->record);
  client->session = *session;
  client->self = root->self;
  tt_record_seal(&client->self, &client->session.out);
  tt_outlet_set(&client->out, &client->self, sizeof client->self, NULL, 0);
  tt_socket_guard(fd, root->unreachable_ms);
  if (tt_watcher_add(&client->watcher, EPOLLIN) != tuttiSuccess) {
    close(fd);
    tt_wipe(client, sizeof *client);
    tt_free(client);
    return;
  }
  client->next = root->clients;
  root->clients = client;
  root->client_count++;
  tt_root_first(root);
  client_push(client);
}

void tt_client_close(struct client *client)
{
  if (client->watcher.fd < 0) return;
  tt_watcher_remove(&client->watcher);
  close(client->watcher.fd);
  client->watcher.fd = -1;
}

void tt_clients_sweep(struct tt_root *root)
{
  for (struct client **at = &root->clients; *at;) {
    struct client *client = *at;
    if (client->watcher.fd >= 0) {
      at = &client->next;
      continue;
    }
    *at = client->next;
    root->client_count--;
    tt_free(client->reason);
    tt_free(client->sentence);
    tt_wipe(client, sizeof *client);
    tt_free(client);
  }
}
