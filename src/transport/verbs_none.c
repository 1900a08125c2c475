/* SPDX-License-Identifier: BSD-3-Clause */
/* Stands in for the verbs transport if the library was built without the headers of rdma-core. */
#include <stdio.h>

#include "transport/transport.h"
#include "transport/verbs_facts_private.h"

static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  (void)settings;
  snprintf(why, size, "built without it: install libibverbs-dev and librdmacm-dev (rdma-core-devel), and build again");
  return why;
}

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  (void)transport, (void)spec, (void)peer_info;
  return tt_fail(tuttiInvalidUsage, "the verbs transport is not part of this build");
}

static void destroy(struct tt_transport *transport)
{
  (void)transport;
}

const struct tt_transport_ops tt_transport_verbs = {
    TT_VERBS_FACTS,
    .unusable = unusable,
    .create = create,
    .destroy = destroy,
};
