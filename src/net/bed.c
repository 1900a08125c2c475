/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping until a descriptor is ready. */
#include <time.h>

#include "net/net.h"

void tt_bed_add(struct tt_bed *bed, int fd, short events)
{
  if (bed->n < TT_BED_MOST) bed->polls[bed->n++] = (struct pollfd){.fd = fd, .events = events};
  else bed->until_ns = 0;
}

void tt_bed_limit(struct tt_bed *bed, uint64_t until_ns)
{
  if (until_ns < bed->until_ns) bed->until_ns = until_ns;
}

void tt_bed_sleep(struct tt_bed *bed)
{
  uint64_t now = tt_now_ns(), ns = bed->until_ns > now ? bed->until_ns - now : 0;
  struct timespec most = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
  ppoll(bed->polls, (nfds_t)bed->n, &most, NULL);
}
