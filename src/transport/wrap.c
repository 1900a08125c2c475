/* SPDX-License-Identifier: BSD-3-Clause */
#include "transport/wrap_private.h"

#include <string.h>

static tuttiResult_t peer_infos_take(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  struct tt_transport *inner = ((struct tt_wrap *)transport)->inner;
  return inner->ops->connect(inner, peer_infos, stride);
}

static int reaches(const struct tt_transport *transport, int peer)
{
  const struct tt_transport *inner = ((const struct tt_wrap *)transport)->inner;
  return inner->ops->reaches(inner, peer);
}

static int descriptors(const struct tt_transport *transport)
{
  const struct tt_transport *inner = ((const struct tt_wrap *)transport)->inner;
  return inner->ops->descriptors(inner);
}

static size_t held(const struct tt_transport *transport)
{
  const struct tt_transport *inner = ((const struct tt_wrap *)transport)->inner;
  return inner->ops->held(inner);
}

static tuttiResult_t register_memory(struct tt_transport *transport, const struct tt_registered *memory, void **handle)
{
  struct tt_transport *inner = ((struct tt_wrap *)transport)->inner;
  *handle = NULL;
  return inner->ops->register_memory ? inner->ops->register_memory(inner, memory, handle) : tuttiSuccess;
}

static void deregister_memory(struct tt_transport *transport, void *handle)
{
  struct tt_transport *inner = ((struct tt_wrap *)transport)->inner;
  if (inner->ops->deregister_memory) inner->ops->deregister_memory(inner, handle);
}

static void halt(struct tt_transport *transport)
{
  struct tt_transport *inner = ((struct tt_wrap *)transport)->inner;
  if (inner->ops->halt) inner->ops->halt(inner);
}

static const char *path(const struct tt_transport *transport, int peer, char *text, size_t size)
{
  const struct tt_transport *inner = ((const struct tt_wrap *)transport)->inner;
  return inner->ops->path(inner, peer, text, size);
}

static tuttiResult_t link_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  struct tt_wrap *wrap = (struct tt_wrap *)transport;
  struct tt_wrap_link *l = wrap->links;
  while (l && (l->link.peer != peer || l->link.lane != lane)) l = l->next;
  if (!l) {
    struct tt_link *inner;
    tuttiResult_t result = wrap->inner->ops->open(wrap->inner, peer, lane, &inner);
    if (result != tuttiSuccess) return result;
    if (!inner) {
      *link = NULL;
      return tuttiSuccess;
    }
    l = tt_alloc(1, wrap->link_bytes);
    if (!l) return tt_fail(tuttiSystemError, "out of memory for the %s link to rank %d", wrap->base.ops->name, peer);
    l->link = (struct tt_link){.ops = wrap->link_ops, .transport = transport, .peer = peer, .lane = lane};
    l->inner = inner;
    l->next = wrap->links;
    wrap->links = l;
  }
  *link = &l->link;
  return tuttiSuccess;
}

static tuttiResult_t prepare(struct tt_transport *transport, int peer, int lane)
{
  struct tt_transport *inner = ((struct tt_wrap *)transport)->inner;
  return inner->ops->prepare ? inner->ops->prepare(inner, peer, lane) : tuttiSuccess;
}

void tt_wrap_make(struct tt_wrap *wrap, struct tt_transport *inner)
{
  struct tt_transport_ops *ops = &wrap->ops;
  *ops = *inner->ops;
  ops->connect = peer_infos_take;
  ops->reaches = reaches;
  ops->open = link_open;
  ops->prepare = prepare;
  ops->descriptors = descriptors;
  ops->held = held;
  ops->path = path;
  ops->register_memory = register_memory;
  ops->deregister_memory = deregister_memory;
  ops->halt = halt;
  wrap->inner = inner;
  wrap->base.ops = ops;
}

void tt_wrap_clear(struct tt_wrap *wrap)
{
  while (wrap->links) {
    struct tt_wrap_link *l = wrap->links;
    wrap->links = l->next;
    tt_free(l);
  }
  if (wrap->inner) wrap->inner->ops->destroy(wrap->inner);
}

ssize_t tt_wrap_result(struct tt_wrap_link *l, ssize_t result)
{
  l->link.seen_word = l->inner->seen_word;
  if (result >= 0) return result;
  l->link.seen_call = l->inner->seen_call;
  memcpy(l->link.why, l->inner->why, sizeof l->link.why);
  return result;
}
