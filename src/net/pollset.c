/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping until a descriptor is ready. */
#include <time.h>

#include "net/net.h"

void tt_pollset_add(struct tt_pollset *pollset, int fd, short events)
{
  if (pollset->n < TT_POLLSET_MOST) pollset->polls[pollset->n++] = (struct pollfd){.fd = fd, .events = events};
  else pollset->until_ns = 0;
}

void tt_pollset_limit(struct tt_pollset *pollset, uint64_t until_ns)
{
  if (until_ns < pollset->until_ns) pollset->until_ns = until_ns;
}

void tt_pollset_sleep(struct tt_pollset *pollset)
{
  uint64_t now = tt_now_ns(), ns = pollset->until_ns > now ? pollset->until_ns - now : 0;
  struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  ppoll(pollset->polls, (nfds_t)pollset->n, &most, NULL);
}
