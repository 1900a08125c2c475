/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes a line per message begun and ended:
 *
 *   seconds rank peer lane send|recv begin|end word bytes call
 *   5123.000451203 rank 0 peer 1 lane 0 send begin 0000000c8d1f0a35 4096 AllReduce #12 (...)
 *
 * Seconds are CLOCK_MONOTONIC's, so that the lines of all ranks of a host can be merged. A line is one
 * write(2) to a file opened for appending. A line that cannot be written is lost: tracing never ends
 * a run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "transport/wrap_private.h"

struct flow {
  struct tt_head head;
  uint64_t left;
};

struct trace_link {
  struct tt_wrap_link wrap;
  struct flow out, in;
};

struct trace {
  struct tt_wrap wrap;
  int fd;
};

static void line(struct trace_link *l, const struct flow *flow, const char *event)
{
  const struct trace *t = (const struct trace *)l->wrap.link.transport;
  char text[320], call[TT_CALL_TEXT_BYTES] = "";
  uint64_t now = tt_now_ns();
  if (flow->head.call) tt_call_text(flow->head.call, call, sizeof call);
  int n = snprintf(text, sizeof text, "%llu.%09llu rank %d peer %d lane %d %s %s %016llx %llu %s\n",
                   (unsigned long long)(now / 1000000000u), (unsigned long long)(now % 1000000000u),
                   t->wrap.spec->rank, l->wrap.link.peer, l->wrap.link.lane, flow == &l->out ? "send" : "recv", event,
                   (unsigned long long)(flow->head.word & ~TT_WORD_OVERFLOW), (unsigned long long)flow->head.len, call);
  if (n > 0 && tt_file_write(t->fd, text, (size_t)n, -1) < 0) return;
}

static void begin(struct trace_link *l, struct flow *flow, const struct tt_head *head)
{
  flow->head = *head;
  flow->left = head->len;
  line(l, flow, "begin");
}

static void moved(struct trace_link *l, struct flow *flow, size_t len)
{
  flow->left -= len;
  if (flow->left == 0) line(l, flow, "end");
}

static void send_begin(struct tt_link *link, const struct tt_head *head)
{
  struct trace_link *l = (struct trace_link *)link;
  begin(l, &l->out, head);
  l->wrap.inner->ops->send_begin(l->wrap.inner, head);
}

static ssize_t send_bytes(struct tt_link *link, const void *data, size_t len)
{
  struct trace_link *l = (struct trace_link *)link;
  ssize_t n = l->wrap.inner->ops->send(l->wrap.inner, data, len);
  if (n > 0) moved(l, &l->out, (size_t)n);
  return tt_wrap_result(&l->wrap, n);
}

static void recv_begin(struct tt_link *link, const struct tt_head *head)
{
  struct trace_link *l = (struct trace_link *)link;
  begin(l, &l->in, head);
  l->wrap.inner->ops->recv_begin(l->wrap.inner, head);
}

static ssize_t peek(struct tt_link *link, const void **data, size_t grain)
{
  struct trace_link *l = (struct trace_link *)link;
  return tt_wrap_result(&l->wrap, l->wrap.inner->ops->peek(l->wrap.inner, data, grain));
}

static ssize_t consume(struct tt_link *link, size_t len)
{
  struct trace_link *l = (struct trace_link *)link;
  ssize_t result = tt_wrap_result(&l->wrap, l->wrap.inner->ops->consume(l->wrap.inner, len));
  if (result == 0) moved(l, &l->in, len);
  return result;
}

static ssize_t recv_bytes(struct tt_link *link, void *data, size_t len)
{
  struct trace_link *l = (struct trace_link *)link;
  ssize_t n = l->wrap.inner->ops->recv(l->wrap.inner, data, len);
  if (n > 0) moved(l, &l->in, (size_t)n);
  return tt_wrap_result(&l->wrap, n);
}

static int descriptor(struct tt_link *link, uint32_t *events)
{
  struct tt_link *inner = ((struct tt_wrap_link *)link)->inner;
  return inner->ops->descriptor(inner, events);
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

/* The trace file is one more descriptor. */
static int descriptors(const struct tt_transport *transport)
{
  const struct tt_transport *inner = ((const struct tt_wrap *)transport)->inner;
  return inner->ops->descriptors(inner) + 1;
}

static void destroy(struct tt_transport *transport)
{
  struct trace *t = (struct trace *)transport;
  if (!t) return;
  tt_wrap_clear(&t->wrap);
  close(t->fd);
  tt_free(t);
}

/* `file` with %p replaced by the pid; -1 if it does not fit. */
static int file_name(char *out, size_t size, const char *file)
{
  const char *mark = strstr(file, "%p");
  int n = mark ? snprintf(out, size, "%.*s%d%s", (int)(mark - file), file, (int)getpid(), mark + 2)
               : snprintf(out, size, "%s", file);
  return n > 0 && (size_t)n < size ? 0 : -1;
}

tuttiResult_t tt_trace_wrap(struct tt_transport **out, struct tt_transport *inner,
                            const struct tt_transport_spec *spec, const char *file)
{
  char name[512];
  if (file_name(name, sizeof name, file) != 0)
    return tt_fail(tuttiInvalidArgument, "TUTTI_TRACE is longer than %zu bytes: choose a shorter path", sizeof name);
  struct trace *t = tt_alloc(1, sizeof *t);
  if (!t) return tt_fail(tuttiSystemError, "out of memory for tracing");
  t->fd = tt_file_open(name, O_APPEND);
  if (t->fd < 0) {
    tt_free(t);
    return tt_fail(tuttiSystemError, "cannot open the trace file %s (TUTTI_TRACE): %s", name, tt_file_why(errno));
  }
  t->wrap = (struct tt_wrap){.spec = spec, .link_ops = &link_ops, .link_bytes = sizeof(struct trace_link)};
  tt_wrap_make(&t->wrap, inner);
  t->wrap.ops.descriptors = descriptors;
  t->wrap.ops.destroy = destroy;
  *out = &t->wrap.base;
  return tuttiSuccess;
}
