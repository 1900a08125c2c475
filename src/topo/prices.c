/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/topo.h"

const char *const tt_link_names[TT_LINK_KINDS] = {"self", "cache", "numa", "node", "net"};

#define LINE(alpha, beta)                                        \
  {                                                              \
    .nparts = 1, .part = { {UINT64_MAX, alpha, beta} }           \
  }

/* These are not measured; they have the right order of magnitude. In memory 8 to 13 GB/s per stream, less with the
 * distance; on the wire 10 Gbit/s, which is 839 us a MiB. */
const struct tt_link_prices tt_link_prices_default = {
    .link =
        {
            [TT_LINK_SELF] = LINE(0, 80),
            [TT_LINK_CACHE] = LINE(0.3, 80),
            [TT_LINK_NUMA] = LINE(0.4, 100),
            [TT_LINK_NODE] = LINE(0.6, 130),
            [TT_LINK_NET] = LINE(12, 839),
        },
    .gamma_us_per_mib = 60,
};
