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
  struct tt_transport_ops ops; /* base.ops points here */
  struct tt_transport *inner;  /* owned */
  const struct tt_transport_spec *spec;
  const struct tt_link_ops *link_ops;
  size_t link_bytes; /* size of the decorator's link struct */
  struct tt_wrap_link *links;
};

/* Takes `inner` over: the facts are those of inner, and all functions forward to it, except destroy, which the
 * decorator sets (wrap->ops). `create` and `unusable` of the result are never called. */
void tt_wrap_make(struct tt_wrap *wrap, struct tt_transport *inner);

/* Frees links and inner transport, not the struct itself. */
void tt_wrap_clear(struct tt_wrap *wrap);

/* Returns a result of the inner link as the outer one's, and copies the seen word and, after an error, its reasons. */
ssize_t tt_wrap_result(struct tt_wrap_link *l, ssize_t result);

#endif
