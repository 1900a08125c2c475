/* SPDX-License-Identifier: BSD-3-Clause */
/* Injects faults into any transport. TUTTI_FAULT holds rules, separated by ';', of fields, separated by ',':
 *
 *   rank=1,peer=0,lane=0,side=send,nth=3,action=delay:5ms
 *
 * rank, peer, lane: which links; left out: any. side: send (if left out) or recv. nth: the n-th message begun that
 * matches the rest of the rule, counted from 1 on each rank; left out: every one. Actions on that message:
 *
 *   delay:TIME   nothing moves before that time (ns, us, ms, s) has passed since it began
 *   short:BYTES  at most so many bytes move at once (a multiple of 16; 16 if left out)
 *   drop         the link breaks; if it has a socket, the connection is shut down for the peer too
 *   corrupt      the lowest bit of the first byte is flipped
 *   kill, stop   this process gets SIGKILL or SIGSTOP */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "transport/fault_private.h"
#include "transport/wrap_private.h"

#define BOUNCE_BYTES 4096 /* a multiple of every grain */

/* The message under way in one direction. */
struct flow {
  uint64_t due_ns;  /* nothing moves before; 0: no delay */
  size_t most;      /* bytes at once; 0: any */
  int is_corrupted; /* until its first bytes have moved */
  uint8_t bounce[BOUNCE_BYTES]; /* the corrupted bytes: neither the user's nor the peer's memory is touched */
};

struct fault_link {
  struct tt_wrap_link wrap;
  struct flow out, in;
  int is_dropped;
};

struct fault {
  struct tt_wrap wrap;
  struct tt_fault_rules rules;
};

static void drop(struct fault_link *l)
{
  uint32_t events;
  int fd = l->wrap.inner->ops->descriptor(l->wrap.inner, &events);
  if (fd >= 0) shutdown(fd, SHUT_RDWR); /* no effect on an RDMA device's, which is no socket and serves all its links */
  l->is_dropped = 1;
}

static void apply(struct fault_link *l, struct flow *flow, const struct tt_fault_rule *rule)
{
  switch (rule->action) {
  case TT_FAULT_DELAY: flow->due_ns = tt_now_ns() + rule->value; break;
  case TT_FAULT_SHORT: flow->most = rule->value; break;
  case TT_FAULT_DROP: drop(l); break;
  case TT_FAULT_CORRUPT: flow->is_corrupted = 1; break;
  case TT_FAULT_KILL: raise(SIGKILL); break;
  case TT_FAULT_STOP: raise(SIGSTOP); break;
  case TT_FAULT_NONE: break;
  }
}

static void begin(struct fault_link *l, struct flow *flow, enum tt_fault_side side)
{
  struct fault *f = (struct fault *)l->wrap.link.transport;
  flow->due_ns = 0;
  flow->most = 0;
  flow->is_corrupted = 0;
  for (int i = 0; i < f->rules.n; i++) {
    struct tt_fault_rule *rule = &f->rules.rule[i];
    if (rule->side != side || (rule->rank >= 0 && rule->rank != f->wrap.spec->rank) ||
        (rule->peer >= 0 && rule->peer != l->wrap.link.peer) || (rule->lane >= 0 && rule->lane != l->wrap.link.lane))
      continue;
    rule->count++;
    if (rule->nth == 0 || rule->nth == rule->count) apply(l, flow, rule);
  }
}

/* 1 if bytes may move now, 0, or TT_LINK_BROKEN. */
static ssize_t may_move(struct fault_link *l, struct flow *flow)
{
  if (l->is_dropped) {
    snprintf(l->wrap.link.why, sizeof l->wrap.link.why, "dropped by a rule of TUTTI_FAULT");
    return TT_LINK_BROKEN;
  }
  if (flow->due_ns && tt_now_ns() < flow->due_ns) return 0;
  flow->due_ns = 0;
  return 1;
}

static size_t cut(const struct flow *flow, size_t len)
{
  if (flow->most && len > flow->most) len = flow->most;
  if (flow->is_corrupted && len > BOUNCE_BYTES) len = BOUNCE_BYTES;
  return len;
}

static const void *corrupted(struct flow *flow, const void *data, size_t len)
{
  memcpy(flow->bounce, data, len);
  flow->bounce[0] ^= 1;
  return flow->bounce;
}

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  struct fault_link *l = (struct fault_link *)link;
  struct tt_head inner = *head;
  begin(l, &l->out, TT_FAULT_SEND);
  if (l->out.is_corrupted) inner.same = 0;
  l->wrap.inner->ops->send_begin(l->wrap.inner, &inner);
}

static ssize_t send_bytes(struct tt_link *link, const void *data, size_t len)
{
  struct fault_link *l = (struct fault_link *)link;
  ssize_t may = may_move(l, &l->out);
  if (may <= 0) return may;
  len = cut(&l->out, len);
  if (l->out.is_corrupted && len) data = corrupted(&l->out, data, len);
  ssize_t n = l->wrap.inner->ops->send(l->wrap.inner, data, len);
  if (n > 0) l->out.is_corrupted = 0;
  return tt_wrap_result(&l->wrap, n);
}

static void recv_begin(struct tt_link *link, const struct tt_head *head)
{
  struct fault_link *l = (struct fault_link *)link;
  begin(l, &l->in, TT_FAULT_RECV);
  l->wrap.inner->ops->recv_begin(l->wrap.inner, head);
}

static ssize_t peek(struct tt_link *link, const void **data, size_t grain)
{
  struct fault_link *l = (struct fault_link *)link;
  ssize_t may = may_move(l, &l->in);
  if (may <= 0) return may;
  ssize_t n = tt_wrap_result(&l->wrap, l->wrap.inner->ops->peek(l->wrap.inner, data, grain));
  if (n <= 0) return n;
  n = (ssize_t)cut(&l->in, (size_t)n);
  if (l->in.is_corrupted) *data = corrupted(&l->in, *data, (size_t)n);
  return n;
}

static ssize_t consume(struct tt_link *link, size_t len)
{
  struct fault_link *l = (struct fault_link *)link;
  if (l->is_dropped) return 0;
  if (len) l->in.is_corrupted = 0;
  return tt_wrap_result(&l->wrap, l->wrap.inner->ops->consume(l->wrap.inner, len));
}

static ssize_t recv_bytes(struct tt_link *link, void *data, size_t len)
{
  struct fault_link *l = (struct fault_link *)link;
  ssize_t may = may_move(l, &l->in);
  if (may <= 0) return may;
  ssize_t n = l->wrap.inner->ops->recv(l->wrap.inner, data, cut(&l->in, len));
  if (n > 0 && l->in.is_corrupted) {
    *(uint8_t *)data ^= 1;
    l->in.is_corrupted = 0;
  }
  return tt_wrap_result(&l->wrap, n);
}

/* While a rule holds bytes back, the inner descriptor says nothing about when to look again. */
static int descriptor(struct tt_link *link, uint32_t *events)
{
  struct fault_link *l = (struct fault_link *)link;
  *events = 0;
  if (l->is_dropped || l->out.due_ns || l->in.due_ns || l->out.most || l->in.most) return -1;
  if (l->out.is_corrupted || l->in.is_corrupted) return -1;
  return l->wrap.inner->ops->descriptor(l->wrap.inner, events);
}

static const struct tt_link_ops link_ops = {
    .send_begin = send_begin,
    .send = send_bytes,
    .recv_begin = recv_begin,
    .peek = peek,
    .consume = consume,
    .recv = recv_bytes,
    .descriptor = descriptor,
};

static void destroy(struct tt_transport *transport)
{
  struct fault *f = (struct fault *)transport;
  if (!f) return;
  tt_wrap_clear(&f->wrap);
  tt_free(f);
}

tuttiResult_t tt_fault_wrap(struct tt_transport **out, struct tt_transport *inner,
                            const struct tt_transport_spec *spec, const char *rules)
{
  struct fault *f = tt_alloc(1, sizeof *f);
  if (!f) return tt_fail(tuttiSystemError, "out of memory for fault injection");
  f->wrap = (struct tt_wrap){.spec = spec, .link_ops = &link_ops, .link_bytes = sizeof(struct fault_link)};
  tuttiResult_t result = tt_fault_rules_parse(&f->rules, rules);
  if (result != tuttiSuccess) {
    tt_free(f);
    return result;
  }
  tt_wrap_make(&f->wrap, inner);
  f->wrap.ops.destroy = destroy;
  *out = &f->wrap.base;
  return tuttiSuccess;
}
