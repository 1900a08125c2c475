/* SPDX-License-Identifier: BSD-3-Clause */
/* The common part of the decorators: a transport around a transport, a link around a link. */
#ifndef TT_TRANSPORT_WRAP_H
#define TT_TRANSPORT_WRAP_H

#include "transport/transport.h"

/* Every decorator's link struct begins with this one. */
struct tt_wrap_link {
  struct tt_link link;
  struct tt_link *inner;
  struct tt_wrap_link *next;
};

/* Every decorator's struct begins with this one. */
struct tt_wrap {
  struct tt_transport base;
  struct tt_transport *inner; /* owned; NULL: not taken over yet */
  const struct tt_transport_spec *spec;
  const struct tt_link_ops *link_ops;
  size_t link_bytes; /* size of the decorator's link struct */
  struct tt_wrap_link *links;
};

/* The slots of struct tt_transport_ops that hand on to the inner transport. */
tuttiResult_t tt_wrap_connect(struct tt_transport *transport, const void *peer_infos, size_t stride);
int tt_wrap_reaches(const struct tt_transport *transport, int peer);
tuttiResult_t tt_wrap_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link);
int tt_wrap_descriptors(const struct tt_transport *transport);
size_t tt_wrap_held(const struct tt_transport *transport);
tuttiResult_t tt_wrap_enroll(struct tt_transport *transport, const struct tt_enrolled *memory, void **handle);
void tt_wrap_withdraw(struct tt_transport *transport, void *handle);
void tt_wrap_halt(struct tt_transport *transport);
const char *tt_wrap_path(const struct tt_transport *transport, int peer, char *text, size_t size);

/* Frees links and inner transport, not the struct itself. */
void tt_wrap_clear(struct tt_wrap *wrap);

/* Returns a result of the inner link as the outer one's, and copies the seen word and, after an error, its reasons. */
ssize_t tt_wrap_result(struct tt_wrap_link *l, ssize_t result);

#endif
