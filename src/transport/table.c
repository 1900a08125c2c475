/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/transport.h"

/* In the default order of preference. */
const struct tt_transport_ops *const tt_transports[] = {&tt_transport_shm, &tt_transport_verbs, &tt_transport_tcp,
                                                        NULL};
