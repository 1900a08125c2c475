/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that carry frames instead of operations, and the published calls of rounds (fusion). */
#include "comm/private.h"

tuttiResult_t tt_comm_mail_make(struct tuttiComm *comm, const int32_t *peers, int npeers, size_t bytes)
{
  struct tt_waiter waiter;
  tuttiResult_t result = tt_mail_create(&comm->parts.mail, comm->parts.exec, peers, npeers, bytes);
  if (result != tuttiSuccess) return tt_comm_give_up(comm, result, 0);
  tt_waiter_init(&waiter, comm->facts.oversubscribed);
  while ((result = tt_mail_open(comm->parts.mail)) == tuttiInProgress) {
    if (tt_comm_health(comm) != tuttiSuccess) return tt_comm_health(comm);
    tt_waiter_pause(&waiter, 0);
  }
  return result;
}

tuttiResult_t tt_comm_mail_post(struct tuttiComm *comm, int peer, const void *data)
{
  return tt_mail_post(comm->parts.mail, peer, data);
}

tuttiResult_t tt_comm_mail_poll(struct tuttiComm *comm, int is_glance, int *moved)
{
  struct tt_mail *mail = comm->parts.mail;
  int waits = comm->queue.round.op != 0;
  tuttiResult_t result = is_glance ? tt_mail_glance(mail, waits, moved) : tt_mail_poll(mail, waits, moved);
  return result == tuttiInProgress ? tuttiSuccess : result;
}

const void *tt_comm_mail_take(struct tuttiComm *comm, int *peer)
{
  return tt_mail_take(comm->parts.mail, peer);
}

int tt_comm_mail_is_sent(const struct tuttiComm *comm)
{
  return tt_mail_is_sent(comm->parts.mail);
}

void tt_comm_round_begin(struct tuttiComm *comm, size_t count)
{
  comm->queue.round = (struct tt_call){.op = ++comm->queue.last_op,
                                       .count = count,
                                       .collective = TT_ALL_REDUCE,
                                       .type = tuttiUint64,
                                       .redop = tuttiMin,
                                       .root = -1};
  tt_watch_publish(comm->parts.watch, &comm->queue.round);
}

void tt_comm_round_end(struct tuttiComm *comm)
{
  tt_watch_finish(comm->parts.watch, comm->queue.round.op);
  comm->queue.round.op = 0;
}

void tt_comm_round_look(struct tuttiComm *comm, uint64_t since_ns)
{
  if (comm->queue.round.op) tt_watch_compare(comm->parts.watch, &comm->queue.round, since_ns);
}
