/* SPDX-License-Identifier: BSD-3-Clause */
#include "traffic.h"

#include <stdlib.h>
#include <string.h>

#include "memory/memory.h"

enum { TABLE = 65521 }; /* a prime: no alignment of a message hides a shift */

static unsigned char table[TABLE + PIECE];
static pthread_once_t table_once = PTHREAD_ONCE_INIT;

static uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

static uint64_t name(const struct flow *flow)
{
  return mix(((uint64_t)flow->from << 40 | (uint64_t)flow->to << 32 | (uint64_t)flow->lane << 24 |
              (uint64_t)flow->index) + 1);
}

static void table_make(void)
{
  for (size_t i = 0; i < TABLE; i++) table[i] = (unsigned char)mix(i + 99);
  for (size_t i = TABLE; i < sizeof table; i++) table[i] = table[i - TABLE];
}

static const unsigned char *bytes_at(const struct flow *flow, size_t at)
{
  return table + (name(flow) % TABLE + at) % TABLE;
}

void traffic_fill(const struct flow *flow, size_t at, unsigned char *out, size_t n)
{
  memcpy(out, bytes_at(flow, at), n);
}

int traffic_check(const struct flow *flow, size_t at, const void *data, size_t n)
{
  for (const unsigned char *given = data; n > 0;) {
    size_t part = n < PIECE ? n : PIECE;
    if (memcmp(given, bytes_at(flow, at), part) != 0) return 0;
    given += part;
    at += part;
    n -= part;
  }
  return 1;
}

/* Mostly small and odd, some around the sizes at which transports change their ways, a few long. */
static size_t size_of(const struct flow *flow)
{
  static const size_t edges[] = {8, 39, 40, 41, 48, 63, 64, 4095, 4096, 4097, 32767, 32768, 32769, 65536, 65552};
  uint64_t r = mix(name(flow));
  size_t size = 1 + (r >> 8) % 300;
  if (r % 8 == 1) size = edges[(r >> 8) % (sizeof edges / sizeof edges[0])];
  if (r % 8 == 2) size = 1 + (r >> 8) % 70000;
  if (r % 32 == 3) size = 1 + (r >> 8) % flow->largest;
  return size < flow->largest ? size : flow->largest;
}

static void message_begin(struct flow *flow)
{
  flow->call = (struct tt_call){.op = 1 + (uint64_t)flow->index, .count = size_of(flow), .collective = TT_ALL_REDUCE};
  flow->head = (struct tt_head){.word = tt_call_word(&flow->call), .len = size_of(flow), .call = &flow->call};
  flow->done = flow->offered = 0;
  flow->is_offered = 0;
  flow->is_peeking = (int)world_random(flow->me, 2);
  flow->grain = (size_t)1 << world_random(flow->me, 5);
  flow->is_whole = !flow->is_peeking && flow->head.len <= PIECE;
  if (flow->from == flow->me->rank && !flow->is_peeking) flow->offered = flow->head.len;
  if (flow->from != flow->me->rank && flow->is_whole) flow->is_whole = (int)world_random(flow->me, 2);
}

/* The message at once; 0 if that is not possible now. A wrong one is left to be found piece by piece. */
static int at_once(struct flow *flow, int is_sender)
{
  struct tt_link *link = flow->link;
  size_t len = flow->head.len;
  if (is_sender) {
    traffic_fill(flow, 0, flow->buffer, len);
    if (world_random(flow->me, 4) == 0) link->ops->send_begin(link, &flow->head); /* is forgotten */
    return link->ops->put(link, &flow->head, flow->buffer);
  }
  const void *data = link->ops->look(link, flow->head.word, len);
  if (!data || !traffic_check(flow, 0, data, len)) return 0;
  link->ops->take(link);
  return 1;
}

static void begin(struct flow *flow, int is_sender)
{
  message_begin(flow);
  flow->base = flow->filled = 0;
  if (flow->head.len <= flow->link->quick_bytes && world_random(flow->me, 2) && at_once(flow, is_sender)) {
    flow->done = flow->offered = flow->head.len;
    return;
  }
  if (is_sender) flow->link->ops->send_begin(flow->link, &flow->head);
  else flow->link->ops->recv_begin(flow->link, &flow->head);
}

void flow_start(struct flow *flow, struct world_rank *me, struct tt_link *link, int from, int to)
{
  *flow = (struct flow){.me = me, .link = link, .from = from, .to = to, .lane = link->lane};
  flow->is_in_heap = tt_heap_alloc((void **)&flow->buffer, PIECE) == tuttiSuccess && world_random(me, 2);
  if (!flow->is_in_heap) {
    tt_heap_free(flow->buffer);
    flow->buffer = malloc(PIECE);
  }
  flow->index = -1;
  pthread_once(&table_once, table_make);
}

void flow_end(struct flow *flow)
{
  if (flow->is_in_heap) tt_heap_free(flow->buffer);
  else free(flow->buffer);
}

int flow_is_done(const struct flow *flow)
{
  return flow->index + 1 >= flow->messages && (flow->index < 0 || flow->done == flow->head.len);
}

/* Begins the next message if none is under way; 0 if there is no more. */
static int go_on(struct flow *flow, int is_sender)
{
  if (flow_is_done(flow)) return 0;
  if (flow->index < 0 || flow->done == flow->head.len) {
    flow->index++;
    begin(flow, is_sender);
  }
  return 1;
}

ssize_t flow_send(struct flow *flow)
{
  if (!go_on(flow, 1)) return 0;
  if (flow->done == flow->head.len) return (ssize_t)flow->done;
  size_t left = flow->head.len - flow->offered;
  if (left) flow->offered += 1 + world_random(flow->me, left < 9000 ? left : 9000);
  if (flow->filled == flow->done) flow->base = flow->done; /* else what was not taken stays where it is */
  size_t at = flow->done - flow->base, n = flow->offered - flow->done;
  if (n > PIECE - at) n = PIECE - at;
  if (flow->done + n > flow->filled)
    traffic_fill(flow, flow->filled, flow->buffer + (flow->filled - flow->base), flow->done + n - flow->filled);
  flow->filled = flow->done + n;
  ssize_t taken = flow->link->ops->send(flow->link, flow->buffer + at, n);
  if (taken > 0) memset(flow->buffer + at, 0xEE, (size_t)taken); /* taken is taken */
  if (taken > 0) flow->done += (size_t)taken;
  return taken;
}

static ssize_t recv_peek(struct flow *flow)
{
  const void *data, *again;
  ssize_t n = flow->link->ops->peek(flow->link, &data, flow->grain);
  if (n <= 0) return n;
  if (flow->done + (size_t)n > flow->head.len) return WRONG_BYTES;
  if ((size_t)n % flow->grain && flow->done + (size_t)n != flow->head.len) return WRONG_BYTES;
  if (!traffic_check(flow, flow->done, data, (size_t)n)) return WRONG_BYTES;
  if (world_random(flow->me, 4) == 0) {
    ssize_t more = flow->link->ops->peek(flow->link, &again, flow->grain);
    if (more == TT_LINK_BROKEN) return more; /* the peer was killed in between */
    if (more < n || !traffic_check(flow, flow->done, again, (size_t)n)) return WRONG_BYTES;
  }
  size_t take = (size_t)n;
  if (world_random(flow->me, 3) == 0) take = world_random(flow->me, take + 1) / flow->grain * flow->grain;
  if (take) flow->link->ops->consume(flow->link, take);
  flow->done += take;
  return (ssize_t)take;
}

/* All of it is offered from the beginning, and left to the peer. */
static ssize_t recv_whole(struct flow *flow)
{
  if (flow->done == 0 && !flow->is_offered) memset(flow->buffer, 0xDD, flow->head.len);
  flow->is_offered = 1;
  size_t left = flow->head.len - flow->done;
  ssize_t got = flow->link->ops->recv(flow->link, flow->buffer + flow->done, left);
  if (got <= 0) return got;
  if ((size_t)got > left || !traffic_check(flow, flow->done, flow->buffer + flow->done, (size_t)got))
    return WRONG_BYTES;
  flow->done += (size_t)got;
  return got;
}

ssize_t flow_recv(struct flow *flow)
{
  if (!go_on(flow, 0)) return 0;
  if (flow->done == flow->head.len) return (ssize_t)flow->done;
  if (flow->is_peeking) return recv_peek(flow);
  if (flow->is_whole) return recv_whole(flow);
  size_t n = flow->head.len - flow->done;
  if (flow->done == 0 && n > 1) n--;
  if (world_random(flow->me, 2)) n = 1 + world_random(flow->me, n);
  if (n > PIECE) n = PIECE;
  memset(flow->buffer, 0xDD, n);
  ssize_t got = flow->link->ops->recv(flow->link, flow->buffer, n);
  if (got <= 0) return got;
  if ((size_t)got > n || !traffic_check(flow, flow->done, flow->buffer, (size_t)got)) return WRONG_BYTES;
  flow->done += (size_t)got;
  return got;
}
