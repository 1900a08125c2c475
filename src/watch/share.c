/* SPDX-License-Identifier: BSD-3-Clause */
/* The leader of a host makes the board and hands its descriptor to the other ranks through its local door. */
#include <sys/mman.h>
#include <unistd.h>

#include "watch/private.h"

#define BOARD_LANE 1

static void attach(struct tt_watch *watch)
{
  watch->own = &watch->board.seats[watch->seat_index];
  for (int i = 0; i < watch->nlocal; i++) {
    struct tt_peer *peer = &watch->peers[watch->local[i]];
    peer->seat = &watch->board.seats[i];
    peer->beat_ns = watch->clock_ns;
  }
}

/* A rank of this host asks for the board. */
static void serve(void *owner, const struct tt_hello *hello, int fd)
{
  struct tt_watch *watch = owner;
  if (watch->board_fd >= 0 && hello->lane == BOARD_LANE && hello->src < (uint32_t)watch->nranks &&
      watch->peers[hello->src].local && tt_fd_send(fd, watch->board_fd, watch->board_len) == tuttiSuccess)
    watch->peers[hello->src].served = 1;
  close(fd);
}

static tuttiResult_t lead(struct tt_watch *watch)
{
  tuttiResult_t result =
      tt_memory_create("tutti-board", watch->board_len, &watch->board_fd, &watch->map);
  if (result != tuttiSuccess) return result;
  tt_board_format(watch->map, watch->nranks, watch->nlocal);
  tt_board_view(&watch->board, watch->map, watch->nranks, watch->nlocal);
  attach(watch);
  watch->peers[watch->rank].served = 1;
  if (watch->nlocal == 1) return tuttiSuccess;
  return tt_door_admit(watch->local_door, &watch->board_pass, TT_HELLO_SHARE, (uint32_t)watch->rank,
                       serve, watch);
}

static tuttiResult_t ask(struct tt_watch *watch)
{
  struct tt_hello hello = {.kind = TT_HELLO_SHARE,
                           .lane = BOARD_LANE,
                           .src = (uint32_t)watch->rank,
                           .dst = (uint32_t)watch->leader};
  return tt_dial_start(&watch->dial, &watch->members[watch->leader].local, &watch->board_pass, &hello,
                       watch->deadline_ns);
}

tuttiResult_t tt_share_create(struct tt_watch *watch)
{
  watch->board_len = tt_board_len(watch->nranks, watch->nlocal);
  return watch->leader == watch->rank ? lead(watch) : ask(watch);
}

static tuttiResult_t map(struct tt_watch *watch, int fd, uint64_t len)
{
  char name[TT_RANK_TEXT_BYTES];
  tt_watch_rank_text(watch, watch->leader, name, sizeof name);
  if (len != watch->board_len)
    return tt_fail(tuttiInvalidUsage, "%s shares a board of %llu bytes where %zu are right: do all ranks run "
                   "the same version of the library?", name, (unsigned long long)len, watch->board_len);
  tuttiResult_t result = tt_memory_map(fd, watch->board_len, &watch->map);
  if (result != tuttiSuccess) return result;
  if (!tt_board_view(&watch->board, watch->map, watch->nranks, watch->nlocal))
    return tt_fail(tuttiInvalidUsage, "%s shares a board of another layout: do all ranks run the same version "
                   "of the library?", name);
  attach(watch);
  return tuttiSuccess;
}

/* Member: waits for the connection, then for the descriptor. */
static tuttiResult_t fetch(struct tt_watch *watch)
{
  tuttiResult_t result = tuttiSuccess;
  if (watch->socket < 0) result = tt_dial_poll(watch->dial, &watch->socket);
  if (result != tuttiSuccess)
    return result == tuttiInProgress ? result : tt_setup_fail(watch, result, watch->leader, "no board from");
  int fd = -1;
  uint64_t len = 0;
  result = tt_fd_recv(watch->socket, &fd, &len);
  if (result == tuttiInProgress) return result;
  close(watch->socket);
  watch->socket = -1;
  if (result != tuttiSuccess) return tt_setup_fail(watch, result, watch->leader, "no board from");
  result = map(watch, fd, len);
  close(fd);
  return result;
}

/* Leader: nobody needs the descriptor any more. */
static void stop_serving(struct tt_watch *watch)
{
  if (watch->board_fd >= 0) {
    if (watch->nlocal > 1) tt_door_dismiss(watch->local_door, watch);
    close(watch->board_fd);
  }
  watch->board_fd = -1;
}

tuttiResult_t tt_share_poll(struct tt_watch *watch)
{
  if (!watch->own) {
    tuttiResult_t result = fetch(watch);
    if (result != tuttiSuccess) return result;
    tt_dial_destroy(watch->dial);
    watch->dial = NULL;
  }
  if (watch->board_fd < 0) return tuttiSuccess;
  for (int i = 0; i < watch->nlocal; i++)
    if (!watch->peers[watch->local[i]].served) return tuttiInProgress;
  stop_serving(watch);
  return tuttiSuccess;
}

int tt_share_bed(const struct tt_watch *watch, struct tt_bed *bed)
{
  if (watch->own) return watch->board_fd >= 0;
  if (watch->socket >= 0) tt_bed_add(bed, watch->socket, POLLIN);
  else tt_dial_bed(watch->dial, bed);
  return 0;
}

void tt_share_destroy(struct tt_watch *watch)
{
  stop_serving(watch);
  tt_dial_destroy(watch->dial);
  if (watch->socket >= 0) close(watch->socket);
  if (watch->map) munmap(watch->map, watch->board_len);
}
