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

/* 1: it is refused at once. */
static int begin(struct tt_control_link *link)
{
  const struct tt_address *to = &link->watch->members[link->peer].control;
  link->knocked_ns = link->watch->clock_ns;
  link->knock = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (link->knock < 0) return 0; /* no descriptor is left */
  tt_process_socket(link->knock);
  int error = connect(link->knock, &to->any, to->len) ? errno : 0;
  if (error && error != EINPROGRESS && error != EINTR) tt_knock_end(link);
  return error == ECONNREFUSED;
}

static enum tt_knock answer(struct tt_control_link *link)
{
  struct pollfd poll_for = {.fd = link->knock, .events = POLLOUT};
  int error = 0;
  socklen_t size = sizeof error;
  if (link->knock < 0 || poll(&poll_for, 1, 0) != 1) return TT_KNOCK_NONE;
  if (getsockopt(link->knock, SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
  tt_knock_end(link);
  return !error ? TT_KNOCK_ANSWERED : error == ECONNREFUSED ? TT_KNOCK_REFUSED : TT_KNOCK_NONE;
}

enum tt_knock tt_knock(struct tt_control_link *link)
{
  enum tt_knock answered = answer(link);
  if (link->watch->clock_ns - link->knocked_ns < KNOCK_NS) return answered;
  tt_knock_end(link);
  return begin(link) ? TT_KNOCK_REFUSED : answered;
}

void tt_knock_tick(struct tt_control_link *link, uint64_t silent_ns)
{
  struct tt_watch *watch = link->watch;
  if (link->state == TT_CONTROL_AWAITED) return;
  if (silent_ns < watch->limits.unreachable_ns / 2 || !link->spoke || link->state != TT_CONTROL_UP) tt_knock_end(link);
  else if (tt_knock(link) == TT_KNOCK_ANSWERED) watch->control.answered_ns = watch->clock_ns;
}
