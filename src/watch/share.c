/* SPDX-License-Identifier: BSD-3-Clause */
/* The leader of a host makes the status page and hands its descriptor to the other ranks through its local listener.
 * One descriptor stays open in each process, by which `tutti status` finds the page. */
#include <sys/mman.h>
#include <unistd.h>

#include "memory/memory.h"
#include "watch/private.h"

#define PAGE_LANE 1

static void attach(struct tt_watch *watch)
{
  watch->own = &watch->page.slots[watch->slot_index];
  for (int i = 0; i < watch->nlocal; i++) {
    struct tt_peer *peer = &watch->peers[watch->local[i]];
    peer->slot = &watch->page.slots[i];
    peer->beat_ns = watch->clock_ns;
  }
}

/* A rank of this host asks for the status page. */
static void serve(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  (void)session; /* a local socket */
  struct tt_watch *watch = owner;
  if (!watch->is_served && hello->lane == PAGE_LANE && hello->src < (uint32_t)watch->nranks &&
      watch->peers[hello->src].local && tt_fd_send(fd, watch->page_fd, watch->page_len) == tuttiSuccess)
    watch->peers[hello->src].served = 1;
  close(fd);
  tt_watch_wake(watch);
}

static tuttiResult_t lead(struct tt_watch *watch)
{
  tuttiResult_t result =
      tt_memory_create("tutti-status", watch->page_len, &watch->page_fd, &watch->map);
  if (result != tuttiSuccess) return result;
  tt_page_format(watch->map, watch->nranks, watch->nlocal);
  tt_page_view(&watch->page, watch->map, watch->nranks, watch->nlocal);
  tt_page_introduce(&watch->page, watch->members, watch->rank, watch->label, watch->is_second);
  attach(watch);
  watch->peers[watch->rank].served = 1;
  if (watch->nlocal == 1) return tuttiSuccess;
  return tt_listener_admit(watch->local_listener, &watch->page_credentials, TT_HELLO_SHARE, (uint32_t)watch->rank,
                       serve, watch);
}

static tuttiResult_t ask(struct tt_watch *watch)
{
  struct tt_hello hello = {.kind = TT_HELLO_SHARE,
                           .lane = PAGE_LANE,
                           .src = (uint32_t)watch->rank,
                           .dst = (uint32_t)watch->leader};
  return tt_dialer_start(&watch->dialer, &watch->members[watch->leader].local, &watch->page_credentials, &hello,
                       watch->deadline_ns);
}

tuttiResult_t tt_share_create(struct tt_watch *watch)
{
  watch->page_len = tt_page_len(watch->nranks, watch->nlocal);
  return watch->leader == watch->rank ? lead(watch) : ask(watch);
}

static tuttiResult_t map(struct tt_watch *watch, int fd, uint64_t len)
{
  char name[TT_RANK_TEXT_BYTES];
  tt_watch_rank_text(watch, watch->leader, name, sizeof name);
  if (len != watch->page_len)
    return tt_fail(tuttiInvalidUsage, "%s shares a status page of %llu bytes where %zu are right: do all ranks run "
                   "the same version of the library?", name, (unsigned long long)len, watch->page_len);
  tuttiResult_t result = tt_memory_map(fd, watch->page_len, &watch->map);
  if (result != tuttiSuccess) return result;
  if (!tt_page_view(&watch->page, watch->map, watch->nranks, watch->nlocal))
    return tt_fail(tuttiInvalidUsage, "%s shares a status page of another layout: do all ranks run the same version "
                   "of the library?", name);
  attach(watch);
  return tuttiSuccess;
}

/* One descriptor of the page is enough for each process. */
static int is_first_of_process(const struct tt_watch *watch)
{
  const struct tt_member *self = &watch->members[watch->rank];
  for (int i = 0; watch->local[i] != watch->rank; i++) {
    const struct tt_member *before = &watch->members[watch->local[i]];
    if (before->pid == self->pid && before->start == self->start) return 0;
  }
  return 1;
}

/* Member: waits for the connection, then for the descriptor. */
static tuttiResult_t fetch(struct tt_watch *watch)
{
  tuttiResult_t result = tuttiSuccess;
  if (watch->socket < 0) result = tt_dialer_poll(watch->dialer, &watch->socket);
  if (result != tuttiSuccess)
    return result == tuttiInProgress ? result : tt_setup_fail(watch, result, watch->leader, "no status page from");
  int fd = -1;
  uint64_t len = 0;
  result = tt_fd_recv(watch->socket, &fd, &len);
  if (result == tuttiInProgress) return result;
  close(watch->socket);
  watch->socket = -1;
  if (result != tuttiSuccess) return tt_setup_fail(watch, result, watch->leader, "no status page from");
  result = map(watch, fd, len);
  if (result == tuttiSuccess && is_first_of_process(watch)) watch->page_fd = fd;
  else close(fd);
  return result;
}

/* Leader: no rank of the host needs the page any more. */
static void stop_serving(struct tt_watch *watch)
{
  if (!watch->is_served && watch->leader == watch->rank && watch->nlocal > 1)
    tt_listener_dismiss(watch->local_listener, watch);
  watch->is_served = 1;
}

tuttiResult_t tt_share_poll(struct tt_watch *watch)
{
  if (!watch->own) {
    tuttiResult_t result = fetch(watch);
    if (result != tuttiSuccess) return result;
    tt_dialer_destroy(watch->dialer);
    watch->dialer = NULL;
  }
  if (watch->is_served || watch->leader != watch->rank) return tuttiSuccess;
  for (int i = 0; i < watch->nlocal; i++)
    if (!watch->peers[watch->local[i]].served) return tuttiInProgress;
  stop_serving(watch);
  return tuttiSuccess;
}

void tt_share_pollset(const struct tt_watch *watch, struct tt_pollset *pollset)
{
  if (watch->own) return;
  if (watch->socket >= 0) tt_pollset_add(pollset, watch->socket, POLLIN);
  else tt_dialer_pollset(watch->dialer, pollset);
}

void tt_share_destroy(struct tt_watch *watch)
{
  stop_serving(watch);
  tt_dialer_destroy(watch->dialer);
  if (watch->socket >= 0) close(watch->socket);
  if (watch->page_fd >= 0) close(watch->page_fd);
  if (watch->map) munmap(watch->map, watch->page_len);
}
