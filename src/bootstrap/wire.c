/* SPDX-License-Identifier: BSD-3-Clause */
#include "bootstrap/wire_private.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void tt_intake_set(struct tt_intake *intake, void *at, size_t want)
{
  *intake = (struct tt_intake){.at = at, .want = want};
}

int tt_intake_read(struct tt_intake *intake, int fd)
{
  while (intake->got < intake->want) {
    ssize_t n = recv(fd, (char *)intake->at + intake->got, intake->want - intake->got, MSG_DONTWAIT);
    if (n > 0) {
      intake->got += (size_t)n;
    } else if (n == 0) {
      errno = 0;
      return -1;
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      return 0;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return 1;
}

void tt_outlet_set(struct tt_outlet *outlet, const void *head, size_t head_len, const void *body,
                   size_t body_len)
{
  *outlet = (struct tt_outlet){.part = {head, body}, .len = {head_len, body_len}};
}

int tt_outlet_busy(const struct tt_outlet *outlet)
{
  return outlet->sent < outlet->len[0] + outlet->len[1];
}

/* Lists the unsent rest of both parts for one sendmsg; returns the number of pieces. */
static size_t outlet_pieces(const struct tt_outlet *outlet, struct iovec pieces[2])
{
  size_t count = 0, skip = outlet->sent;
  for (int i = 0; i < 2; i++) {
    size_t done = skip < outlet->len[i] ? skip : outlet->len[i];
    skip -= done;
    if (done == outlet->len[i]) continue;
    pieces[count].iov_base = (void *)(uintptr_t)((const char *)outlet->part[i] + done);
    pieces[count++].iov_len = outlet->len[i] - done;
  }
  return count;
}

int tt_outlet_write(struct tt_outlet *outlet, int fd)
{
  while (tt_outlet_busy(outlet)) {
    struct iovec pieces[2];
    struct msghdr message = {.msg_iov = pieces};
    message.msg_iovlen = outlet_pieces(outlet, pieces);
    ssize_t n = sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n >= 0) outlet->sent += (size_t)n;
    else if (errno == EAGAIN || errno == EWOULDBLOCK) return 0;
    else if (errno != EINTR) return -1;
  }
  return 1;
}

void tt_frame_digest(struct tt_start_frame *head, const void *body, size_t len)
{
  tt_digest(head->digest, body, len);
}

void tt_frame_seal(struct tt_start_frame *head, struct tt_seal *out)
{
  tt_seal_make(out, head, offsetof(struct tt_start_frame, tag), head->tag);
}

int tt_frame_is_whole(const struct tt_start_frame *head, struct tt_seal *in)
{
  return tt_seal_fits(in, head, offsetof(struct tt_start_frame, tag), head->tag);
}

int tt_frame_fits(const struct tt_start_frame *head, const void *body, size_t len)
{
  uint8_t digest[TT_KEY_BYTES];
  tt_digest(digest, body, len);
  return memcmp(digest, head->digest, sizeof digest) == 0;
}

/* 1 if both ends have the same address. */
static int is_within_a_host(int fd)
{
  struct tt_address mine = {.len = 0}, theirs = {.len = 0};
  socklen_t len = sizeof mine - offsetof(struct tt_address, any);
  if (getsockname(fd, &mine.any, &len) != 0 || getpeername(fd, &theirs.any, &len) != 0) return 0;
  if (mine.any.sa_family == AF_INET) return mine.v4.sin_addr.s_addr == theirs.v4.sin_addr.s_addr;
  return mine.any.sa_family == AF_INET6 && IN6_ARE_ADDR_EQUAL(&mine.v6.sin6_addr, &theirs.v6.sin6_addr);
}

void tt_socket_guard(int fd, int64_t unreachable_ms)
{
  int on = 1, tries = 3;
  int seconds = (int)((unreachable_ms + 2999) / 3000);
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  /* Within a host the connection ends with the process, and the answers of an overloaded kernel may come late. */
  if (is_within_a_host(fd)) return;
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &tries, sizeof tries);
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
}

uint64_t tt_pid_scope(void)
{
  uint64_t names = tt_pid_namespace();
  if (!names || access("/proc/self/stat", R_OK) != 0) return 0;
  uint64_t pid_scope = (tt_host_id(NULL) ^ names) * 0x9e3779b97f4a7c15u;
  return pid_scope ? pid_scope : 1;
}

void tt_record_fill(struct tt_record *record)
{
  *record = (struct tt_record){.version = tt_versions_ours().library, .pid = (int32_t)getpid()};
  record->pid_scope = tt_pid_scope();
  record->start = tt_process_start(getpid());
  tt_host_name(record->host_name);
}

void tt_record_seal(struct tt_record *record, struct tt_seal *out)
{
  tt_seal_mask(out, record->secret);
  tt_seal_make(out, record, offsetof(struct tt_record, tag), record->tag);
}

int tt_record_is_whole(struct tt_record *record, struct tt_seal *in)
{
  if (!tt_seal_fits(in, record, offsetof(struct tt_record, tag), record->tag)) return 0;
  tt_seal_mask(in, record->secret);
  return 1;
}

void tt_text_clean(char *text, size_t size)
{
  text[size - 1] = 0;
  for (; *text; text++)
    if ((unsigned char)*text < 0x20 || *text == 0x7f) *text = '?';
}

void tt_record_clean(struct tt_record *record)
{
  tt_text_clean(record->host_name, sizeof record->host_name);
}

int tt_record_is_dead(const struct tt_record *other, const struct tt_record *self)
{
  if (other->pid <= 0 || other->pid == self->pid) return 0;
  if (!self->pid_scope || other->pid_scope != self->pid_scope || other->host != self->host) return 0;
  return tt_process_life(other->pid, other->start) == TT_LIFE_DEAD;
}

const char *tt_ranks_text(int (*is_in)(const void *owner, uint32_t rank), const void *owner,
                          uint32_t nranks, char *text, size_t size)
{
  char list[200] = "";
  size_t used = 0;
  uint32_t count = 0;
  for (uint32_t first = 0; first < nranks; first++) {
    if (is_in(owner, first)) continue;
    uint32_t last = first;
    while (last + 1 < nranks && !is_in(owner, last + 1)) last++;
    count += last - first + 1;
    if (used + 32 > sizeof list) {
      strcpy(list + used, ", ...");
      break;
    }
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%u", used ? ", " : "", first);
    if (last > first) used += (size_t)snprintf(list + used, sizeof list - used, "-%u", last);
    first = last;
  }
  snprintf(text, size, "rank%s %s of %u", count == 1 ? "" : "s", list, nranks);
  return text;
}
