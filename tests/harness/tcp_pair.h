/* SPDX-License-Identifier: BSD-3-Clause */
/* Two ends of the tcp transport in one process and, as nothing of it blocks, in one thread. */
#ifndef TT_TEST_TCP_PAIR_H
#define TT_TEST_TCP_PAIR_H

#include "transport/transport.h"

#define TCP_PAIR_LANES 2

struct tcp_end {
  struct tt_settings settings; /* may be changed between prepare and start */
  struct tt_credentials credentials;
  struct tt_transport_spec spec;
  struct tt_address where; /* of its listener, port 0 */
  struct tt_transport *transport;
};

struct tcp_pair {
  struct tcp_end end[2];
  uint8_t peer_infos[2][TT_TRANSPORT_PEER_INFO_BYTES];
  uint64_t hosts[2];
  int32_t pids[2];
};

/* Fills in everything; `where` is an address as "127.0.0.1:0". 0 if this machine has it, else -1. */
int tcp_pair_prepare(struct tcp_pair *pair, const char *where);
/* Opens the listeners, creates both ends and connects them: 0, or -1 with the last sentence. */
int tcp_pair_start(struct tcp_pair *pair);
/* Opens the link on `lane` from both sides. */
int tcp_pair_open(struct tcp_pair *pair, int lane, struct tt_link *links[2]);
void tcp_pair_destroy(struct tcp_pair *pair);

/* Open descriptors of this process. */
int descriptors_open(void);

#endif
