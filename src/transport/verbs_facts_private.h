/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts of the verbs transport, whether it is built (verbs.c) or not (verbs_none.c). */
#ifndef TT_VERBS_FACTS_PRIVATE_H
#define TT_VERBS_FACTS_PRIVATE_H

#include "transport/transport.h"

#define TT_VERBS_FACTS .name = "verbs", .block_bytes = TT_BLOCK_BYTES_SOCKET, .is_idle_on_one_host = 1

#endif
