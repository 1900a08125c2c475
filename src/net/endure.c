/* SPDX-License-Identifier: BSD-3-Clause */
/* Connections that outlive an outage of their network. */
#include <netinet/tcp.h>

#include "net/net.h"

#ifndef TCP_RTO_MAX_MS /* Linux 6.15 */
#define TCP_RTO_MAX_MS 44
#endif

#define LINEAR_MS 1000      /* a thin stream is sent again six times at even intervals, of 200 ms or more */
#define PAUSE_MS 1000       /* the kernel accepts no shorter limit of pauses */
#define PAUSE_MAX_MS 120000 /* and no longer one */
#define ARRIVE_MS 500       /* for data to arrive after it is sent, on a busy machine */

uint64_t tt_socket_endure(int fd, int64_t limit_ms)
{
  int on = 1, pause_ms = limit_ms < 8 * PAUSE_MS ? PAUSE_MS : (int)(limit_ms / 8);
  /* Without a bound each pause is as long as all pauses before it together. */
  int64_t worst_ms = limit_ms > LINEAR_MS ? limit_ms - LINEAR_MS : 0;
  if (pause_ms > PAUSE_MAX_MS) pause_ms = PAUSE_MAX_MS;
  (void)setsockopt(fd, IPPROTO_TCP, TCP_THIN_LINEAR_TIMEOUTS, &on, sizeof on);
  int is_bounded = setsockopt(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, &pause_ms, sizeof pause_ms) == 0;
  if (is_bounded && worst_ms > pause_ms) worst_ms = pause_ms;
  return (uint64_t)(worst_ms + ARRIVE_MS) * 1000000u;
}
