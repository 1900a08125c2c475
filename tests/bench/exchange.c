/* SPDX-License-Identifier: BSD-3-Clause */
/* What the bare transport takes for what two ranks do in an all-reduce of 8 bytes: each sends 8 bytes to the other
 * and receives 8. Beside an all-reduce in the same place it tells the overhead of everything above the transport.
 * Two processes, each on a core of its own if there are two. Prints medians and minima of batches in us. */
#include <sched.h>
#include <string.h>

#include "bench.h"
#include "transport_pair.h"

#define BATCHES 25
#define ITERATIONS 20000

static void exchange(struct tt_link *link, const struct tt_head *head)
{
  uint64_t out = 1, in = 0;
  size_t sent = 0, got = 0;
  link->ops->send_begin(link, head);
  link->ops->recv_begin(link, head);
  while (sent < 8 || got < 8) {
    ssize_t n = sent < 8 ? link->ops->send(link, (char *)&out + sent, 8 - sent) : 0;
    if (n > 0) sent += (size_t)n;
    n = link->ops->recv(link, (char *)&in + got, 8 - got);
    if (n > 0) got += (size_t)n;
  }
}

static void body(struct world_rank *me)
{
  cpu_set_t core;
  CPU_ZERO(&core);
  CPU_SET((size_t)me->rank, &core);
  sched_setaffinity(0, sizeof core, &core); /* fails harmlessly where there is one core */
  struct tt_call call = {.op = 1, .count = 2, .collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
  struct tt_head head = {tt_call_word(&call), 8, &call, 0};
  struct tt_link *link = world_open(me, !me->rank, 0);
  double times[BATCHES];
  WORLD_CHECK(me, link);
  for (int b = 0; b < BATCHES; b++) {
    world_barrier(me);
    uint64_t begin = tt_now_ns();
    for (int i = 0; i < ITERATIONS; i++) exchange(link, &head);
    times[b] = (double)(tt_now_ns() - begin) / ITERATIONS / 1000;
  }
  sort(times, BATCHES);
  if (me->rank == 0) {
    printf("%s: 8 B exchanged in %.4f us (median), %.4f us (minimum)\n", me->world->ops->name, times[BATCHES / 2],
           times[0]);
    fflush(stdout);
  }
}

int main(void)
{
  const struct tt_transport_ops *all[] = {&tt_transport_shm, &tt_transport_tcp};
  for (int t = 0; t < 2; t++) {
    struct world world = {.ops = all[t], .nranks = 2, .lanes = 1, .is_forked = 1, .body = body};
    const char *complaint = world_run(&world);
    if (complaint) {
      fprintf(stderr, "%s: %s\n", all[t]->name, complaint);
      return 1;
    }
  }
  return 0;
}
