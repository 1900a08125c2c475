/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <string.h>

#include "transport/transport.h"

const struct tt_transport_ops *const tt_transports[] = {&tt_transport_self, &tt_transport_shm, &tt_transport_verbs,
                                                        &tt_transport_tcp, NULL};

static const struct tt_transport_ops *transport_find(const char *name, size_t len)
{
  for (int t = 1; tt_transports[t]; t++)
    if (strlen(tt_transports[t]->name) == len && memcmp(tt_transports[t]->name, name, len) == 0)
      return tt_transports[t];
  return NULL;
}

static int is_among(const struct tt_transport_ops *const *chosen, int n, const struct tt_transport_ops *ops)
{
  for (int t = 0; t < n; t++)
    if (chosen[t] == ops) return 1;
  return 0;
}

tuttiResult_t tt_transports_choose(const struct tt_transport_ops **chosen, int *n, int most, const char *list)
{
  chosen[0] = tt_transports[0];
  *n = 1;
  for (const char *at = list; *at;) {
    size_t len = strcspn(at, ",");
    const struct tt_transport_ops *ops = transport_find(at, len);
    if (!ops || is_among(chosen, *n, ops) || *n == most) {
      char names[128] = "";
      for (int t = 1; tt_transports[t]; t++)
        snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", t > 1 ? "," : "", tt_transports[t]->name);
      return tt_fail(tuttiInvalidArgument,
                     "the transports are \"%s\" (TUTTI_TRANSPORTS, config.transports, or an option of the program): "
                     "give some of %s, each once", list, names);
    }
    chosen[(*n)++] = ops;
    at += len;
    if (*at == ',') at++;
  }
  return tuttiSuccess;
}
