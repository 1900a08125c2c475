/* SPDX-License-Identifier: BSD-3-Clause */
/* After an outage of the network the kernel takes up to a second before it sends on a control link again. Rather than
 * wait for that where a host is lost, a rank that has heard nothing of a peer for half of the limit knocks: it connects
 * to the peer's listener, again and again, and closes the connection at once. An answer of its kernel says that the
 * network is there, so the link will soon be heard; it is no sign that the peer is well. */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "watch/private.h"

#define KNOCK_NS 250000000u /* how long an answer is waited for, then the next attempt follows */

void tt_knock_end(struct tt_control_link *link)
{
  if (link->knock >= 0) close(link->knock);
  link->knock = -1;
}

static void begin(struct tt_control_link *link)
{
  const struct tt_address *to = &link->watch->members[link->peer].control;
  link->knocked_ns = link->watch->clock_ns;
  link->knock = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->knock < 0) return; /* no descriptor is left */
  tt_process_socket(link->knock);
  if (connect(link->knock, &to->any, to->len) != 0 && errno != EINPROGRESS && errno != EINTR) tt_knock_end(link);
}

/* 1: the connection is there. */
static int is_answered(struct tt_control_link *link)
{
  struct pollfd poll_for = {.fd = link->knock, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (link->knock < 0 || poll(&poll_for, 1, 0) != 1) return 0;
  int is_there = getsockopt(link->knock, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && !error;
  tt_knock_end(link);
  return is_there;
}

void tt_knock_tick(struct tt_control_link *link, uint64_t silent_ns)
{
  struct tt_watch *watch = link->watch;
  if (silent_ns < watch->limits.unreachable_ns / 2 || !link->spoke || link->state != TT_CONTROL_UP) {
    tt_knock_end(link);
    return;
  }
  if (is_answered(link)) watch->control.answered_ns = watch->clock_ns;
  if (watch->clock_ns - link->knocked_ns < KNOCK_NS) return;
  tt_knock_end(link);
  begin(link);
}
