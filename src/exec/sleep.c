/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping on the links of a run. */
#include <poll.h>
#include <sys/epoll.h>
#include <time.h>

#include "exec/private.h"

_Static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT, "events of links are those of poll");

#define DESCRIPTORS 64 /* with more, a thread sleeps by the clock */

struct pollset {
  struct pollfd polls[DESCRIPTORS];
  int n;
  int is_hard; /* 1: a link has no descriptor to sleep on */
  int is_late; /* 1: a link may go on already */
};

static void add(struct pollset *pollset, struct tt_link *link)
{
  uint32_t events;
  int i = 0, fd = link->ops->descriptor(link, &events);
  if (fd >= 0)
    while (i < pollset->n && pollset->polls[i].fd != fd) i++; /* verbs has one for all links */
  if (fd < 0 && events) pollset->is_late = 1;
  if ((fd < 0 && !events) || i == DESCRIPTORS) pollset->is_hard = 1;
  if (fd < 0 || i == DESCRIPTORS) return;
  if (i == pollset->n) pollset->polls[pollset->n++] = (struct pollfd){.fd = fd};
  pollset->polls[i].events |= (short)events;
}

static void add_of_plan(struct pollset *pollset, const struct tt_run *run)
{
  for (int s = 0; s < run->nlanes; s++) pollset->is_hard |= run->lanes[s].waits;
  for (int s = 0; s < run->nlanes; s++)
    for (int32_t l = 0; l < run->plan->nlinks && !pollset->is_hard; l++) add(pollset, run->lanes[s].links[l]);
}

static void add_of_pairs(struct pollset *pollset, const struct tt_run *run)
{
  struct tt_link *link;
  for (int i = 0; !pollset->is_hard && tt_pairs_waits(run->pairs, i, &link); i++)
    if (link) add(pollset, link);
    else pollset->is_hard = 1; /* not open yet */
}

static void add_of_messages(struct pollset *pollset, const struct tt_messages *messages)
{
  struct tt_link *link;
  for (int i = 0; !pollset->is_hard && (i = tt_messages_link(messages, i, &link));)
    if (link) add(pollset, link);
    else pollset->is_hard = 1; /* not open yet */
}

enum tt_slept tt_run_sleep(const struct tt_run *run, const struct tt_messages *messages, int wake, uint64_t ns)
{
  struct pollset pollset = {.polls = {{.fd = wake, .events = POLLIN}}, .n = wake >= 0};
  struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  if (run->state == RUN_MOVING) add_of_plan(&pollset, run);
  else if (run->state == RUN_PAIRS) add_of_pairs(&pollset, run);
  else if (run->state != RUN_IDLE) return TT_SLEPT_NOT;
  if (messages) add_of_messages(&pollset, messages);
  if (pollset.is_hard || (pollset.n == 0 && !pollset.is_late)) return TT_SLEPT_NOT;
  if (pollset.is_late) return TT_SLEPT_WOKEN;
  return ppoll(pollset.polls, (nfds_t)pollset.n, &most, NULL) > 0 ? TT_SLEPT_WOKEN : TT_SLEPT_LONG;
}
