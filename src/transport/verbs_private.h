/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport: a reliable-connected queue pair per peer and lane. Private to transport and its tests.
 *
 * Set-up. As with tcp the lower rank dials the higher one's listener (TT_HELLO_QUEUE_PAIR, so the connection is
 * authenticated both ways), and both write one struct verbs_record over it, with a tag behind it, as with each of the
 * next ones. A side that has checked the other's record and moved its queue pair to "ready to send" writes one byte,
 * VERBS_READY. A side that has read the peer's proves the path with one VERBS_CREDIT and, once the peer's device has
 * acknowledged it, writes a second byte, VERBS_PROVEN. A side that has read the peer's second byte may post. The socket
 * stays and shows when the peer is gone: a side that ends in good order waits for its writes to arrive only as long as
 * the peer is there.
 *
 * A side that cannot do one of these three steps writes a refusal instead: a record of nothing but VERBS_NO_MAGIC, or
 * VERBS_NO. Causes are the limit of locked memory, and devices without a path between them, which a device finds out
 * when its retries are used up. A side that has written or read a refusal has no link on this lane, and the next
 * transport is taken: a link is open only if both sides have written and read all three. A link that has been open and
 * fails is an error.
 *
 * Ring. Each side registers `slots` slots of `slot_bytes` for the peer to write to, and as many to send from. A message
 * travels as *fragments*, each written by one RDMA write with immediate into the slot that is next in turn:
 *
 *   first fragment   word 8 | len 8   of the message | call 32 | payload
 *   later ones       word 8 | at 8    place in it    | payload
 *
 * The payload's length is the written length of the completion less the head; it is a multiple of 16 unless it ends the
 * message, so that elements arrive whole. Immediate data, from the highest bit:
 *
 *   kind 3 | number 13: of the fragment on this queue pair, from 0, its low bits; VERBS_REDUCES or 0 with a refusal, 0
 *   with the rest | freed 16: slots that this side has emptied so far, its low bits
 *
 * Kinds: VERBS_FRAGMENT; VERBS_CREDIT, an empty write that only carries `freed`; and those of "Straight into place".
 *
 * Credits. A sender writes only into slots that the peer has emptied: fragments written - freed < slots. A side that
 * has emptied a quarter of the ring and had no fragment to report it with sends VERBS_CREDIT, which needs no credit. On
 * top of `slots` fragments at most four of those can come before this side polls and posts new receives, and at most
 * one answer, one VERBS_WRITTEN and the credit that proves the path; so many receives are kept. So a queue pair always
 * finds a receive, and waits for nothing but the peer's device.
 *
 * Straight into place. A message of TUTTI_IB_DIRECT_BYTES or more that is offered as a whole, in registered memory
 * (verbs_memory_private.h), begins with a VERBS_ASK: a fragment with a short payload, whose sender sends nothing more
 * of the message until it has the answer. The receiver answers when it opens the fragment: with VERBS_GRANT if it does
 * so in `recv` with room for the whole message in registered memory, else with VERBS_REFUSAL. A grant brings a struct
 * verbs_answer, written to a place after the two halves of the memory: the address for the rest of the message, and
 * the key to it. The sender writes the rest there, the last write with immediate, VERBS_WRITTEN; until that has come
 * the receiver takes no further fragment. After a refusal the rest comes as fragments. A receiver that opens the
 * fragment in `peek`, to reduce the message, says so with the refusal (VERBS_REDUCES): the sender does not ask again
 * for the message of this number among those of a call, as long as this link carries calls of the same shape (struct
 * verbs_refusals). Neither answer nor VERBS_WRITTEN needs a credit: per queue pair and direction one message is under
 * way, so one question, one answer, one end. The answer waits for nothing but a place in the send queue, which the
 * device gives back, so no pattern of messages can deadlock.
 *
 * From the caller's memory. Payload of VERBS_LEND_BYTES or more in registered memory is not copied into the slot, which
 * then holds only the head. Bytes sent from the caller's memory, this way or straight into place, are taken
 * (tt_link_ops.send) when their write has completed: a caller may change a message's bytes once all of them are taken,
 * and has not succeeded before. tt_verbs_link_halt destroys the queue pair, which ends all reading and writing by this
 * device for it; then the transport gives up all regions, so that keys which peers were granted open nothing. A peer
 * that was granted a key can write to all of its region until then: it has proved to hold the job's key.
 *
 * A slot of the outgoing half is used again when its write has completed, and then only if the peer has emptied the
 * same slot of its ring. Completions are requested for the last fragments of messages, for bytes sent from the caller's
 * memory, for answers, and for every few work requests between (struct verbs_link: signal_every); they also give back
 * places in the send queue. A side that destroys its transport in good order waits for the first two kinds.
 *
 * Failures. A failed work request breaks the link of its queue pair; the device's events break the link whose queue
 * pair they name, or all if the device is gone. A port that is down breaks nothing: it may come back before the retries
 * are used up. A side that only sees its work flushed waits FLUSH_PATIENCE_NS for the event that says why.
 *
 * Integers are little endian, immediate data is in network order as verbs want it. No field from the peer determines
 * where the receiver puts bytes: every one is compared with the value that the receiver expects. */
#ifndef TT_TRANSPORT_VERBS_H
#define TT_TRANSPORT_VERBS_H

#include "transport/transport.h"
#include "transport/verbs_api_private.h"
#include "transport/verbs_memory_private.h"

#ifdef TT_HAVE_VERBS

#define VERBS_MAGIC 0x3350517474757474u /* "ttuttQP3" */
#define VERBS_NO_MAGIC 0x2d50517474757474u /* "ttuttQP-" */
#define VERBS_READY 'R'
#define VERBS_PROVEN 'P'
#define VERBS_NO 'N'

struct verbs_record {
  uint64_t magic;
  uint32_t qpn, psn; /* 24 bits each; psn is random */
  uint8_t gid[16];
  uint16_t lid;
  uint8_t mtu; /* enum ibv_mtu */
  uint8_t layer; /* IBV_LINK_LAYER_* */
  uint32_t rkey;
  uint64_t ring; /* address of the first slot */
  uint32_t slots, slot_bytes;
};

enum verbs_kind { VERBS_FRAGMENT, VERBS_CREDIT, VERBS_ASK, VERBS_GRANT, VERBS_REFUSAL, VERBS_WRITTEN };
#define VERBS_REDUCES 1
#define VERBS_SILENT ((enum verbs_kind)-1) /* a write without immediate */
#define VERBS_KIND_SHIFT 29
#define VERBS_NUMBER_SHIFT 16
#define VERBS_NUMBER_MASK 0x1fffu
#define VERBS_FREED_MASK 0xffffu

struct verbs_head {
  uint64_t word;
  uint64_t at; /* first fragment: length of the message; later: place in it */
  struct tt_call call;
};

struct verbs_answer {
  uint64_t address, len; /* of the rest of the message */
  uint32_t rkey, zero;
};
#define VERBS_ANSWER_BYTES 64 /* place for one; after the halves, first the place that the peer writes to */

#define VERBS_FIRST_BYTES sizeof(struct verbs_head)
#define VERBS_LATER_BYTES offsetof(struct verbs_head, call)

#define VERBS_SIGNAL_MOST 8      /* of so many work requests in a row at least one asks for a completion */
#define VERBS_RECEIVES_AT_ONCE 8 /* new receives are posted in bunches of so many */
#define VERBS_LEND_BYTES 16384   /* a copy at 10 GB/s takes 1.6 us, about as long as a completion; not tuned */
#define VERBS_ASK_BYTES 8192     /* payload of a question, which travels while the question is answered */
#define VERBS_WRITE_BYTES ((size_t)1 << 20) /* of one write straight into place */
#define VERBS_REFUSALS_WORDS 8   /* of 64 messages each */
#define VERBS_INLINE_BYTES 224u  /* requested; for small writes the device then reads memory only once */

/* The open device of this rank. */
struct verbs_device {
  struct verbs_api api;
  struct ibv_context *context;
  struct ibv_pd *pd;
  char name[64];
  uint8_t port;
  uint32_t gid_index;
  union ibv_gid gid;
  struct ibv_port_attr attributes; /* of the port */
  struct ibv_device_attr limits;
  struct verbs_memory *memory;      /* NULL: nothing is registered but rings */
  struct ibv_comp_channel *channel; /* for all its links; waiters sleep on it */
  const char *lost;                 /* the event that made it useless; NULL: none */
  int is_port_down;                 /* it may come back while the device tries again */
  unsigned port_downs;              /* how often it has gone down */
};

/* Finds and opens the device (verbs_device.c): that of TUTTI_IB_HCA, else the one that has the address of the interface
 * that TUTTI_SOCKET_IFNAME chooses, else the first; its port must be up and have a GID. 1, or 0 with the reason and the
 * remedy in why; nothing is open then. */
int tt_verbs_device_open(struct verbs_device *device, const struct tt_settings *settings, char *why, size_t size);
void tt_verbs_device_close(struct verbs_device *device); /* also half-open or zero */

/* 1 if `name`, port `port`, is one that the list in NCCL's form admits: "[^][=]name[:port],...", "" admits all. */
int tt_verbs_hca_fits(const char *list, const char *name, int port);

/* Takes the device's events about itself, its port and its queue pairs (verbs_event.c), without waiting. They are
 * recorded in the device and in the links that they name. */
void tt_verbs_device_look(struct verbs_device *device);

/* The state of the question with which a message begins. */
enum verbs_asked { VERBS_MAY_ASK, VERBS_ASKED, VERBS_GRANTED, VERBS_NO_MORE };

/* Bytes that were posted and not yet reported to the caller as taken. */
struct verbs_piece {
  uint64_t posted; /* number of their work request; 0: copied */
  size_t len;
};

/* The messages of a call that are reduced where they arrive: the same ones of a later call of its shape are, too. */
struct verbs_refusals {
  uint32_t shape, op; /* of the message under way: the halves of its call's word */
  uint32_t number;    /* of that message among those of its call on this link, from 0 */
  uint64_t reduced[VERBS_REFUSALS_WORDS]; /* a bit for each number */
};

struct verbs_sender {
  uint64_t word, len, left; /* of the message under way; left: not posted */
  struct tt_call call;
  enum verbs_asked asked;   /* of the message under way */
  uint64_t to;              /* if granted: the address for the rest, */
  uint32_t key;             /* and its key */
  struct verbs_piece *pieces; /* [room]: a queue */
  uint32_t room;            /* as many as there are places in the send queue */
  uint64_t lent, taken;     /* pieces that were put in, and taken out */
  size_t lent_bytes;        /* of the pieces in the queue */
  uint64_t written;         /* fragments */
  uint64_t freed;           /* their slots that the peer has emptied */
  uint64_t posted, retired; /* work requests posted, and known to be completed */
  uint64_t asks, directs;   /* messages that asked, and that went straight into place */
  struct verbs_refusals refusals;
  uint64_t ended;           /* value of posted with the last message's last fragment */
  uint64_t *posted_as;      /* [slots]: value of posted with the newest fragment from that slot */
};

struct verbs_receiver {
  uint64_t word, len, left;
  const uint8_t *data;    /* of the open fragment */
  size_t shown;           /* bytes of it from data on; 0: none is open */
  uint64_t arrived;       /* fragments */
  uint64_t freed, told;   /* slots emptied; how many of them were reported to the peer */
  uint64_t asked;         /* number of the fragment that asks and is not opened yet, + 1; 0: none */
  enum verbs_kind answer; /* to be posted; 0: none */
  int is_reducing;        /* a refusal is because the message is reduced */
  uint64_t answered;      /* value of the sender's posted with the last answer */
  struct verbs_answer grant;
  size_t granted;         /* bytes that the peer writes, or has written, into place; 0: none */
  int is_written;         /* it has written them */
  uint32_t owed;          /* receives used up and not posted anew */
  uint32_t *lens;         /* [slots]: lengths of the fragments there */
};

struct verbs_link {
  struct tt_link base;
  struct verbs_device *device;
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  uint8_t *memory;         /* the ring that the peer writes to, the slots to send from, a place of answers for each */
  size_t slot_bytes;
  uint32_t slots, inlined; /* inlined: bytes that the queue pair takes with the work request */
  uint32_t sends;          /* places in the send queue */
  size_t direct_bytes;     /* messages of this length or more ask; 0: none does, and no question is granted */
  uint32_t signal_every;   /* of so many sends one asks for a completion, so that slots come back in time */
  uint64_t ring;           /* address of the peer's ring */
  uint32_t rkey;           /* and its key */
  uint32_t idle;           /* polls without a completion */
  int is_broken;
  uint64_t failing_ns;     /* since when its queue pair is known to have failed; 0: it has not */
  const char *event;       /* the device's report of that; NULL: none has come yet */
  int is_armed;            /* the next completion is an event of the device's channel */
  int has_news;            /* completions were taken since a waiter asked for the descriptor */
  unsigned unacknowledged; /* events of the channel */
  struct verbs_sender out;
  struct verbs_receiver in;
};

/* ---- a queue pair (verbs_pair.c) ---- */

/* Makes a link with memory and a queue pair that is not connected yet, and fills the record for the peer.
 * Errors: tuttiSystemError with the verb, the device, errno and the remedy. */
tuttiResult_t tt_verbs_link_create(struct verbs_link **link, struct verbs_device *device,
                                   const struct tt_settings *settings, struct verbs_record *record);

/* Bytes of the link's memory. */
size_t tt_verbs_link_bytes(const struct verbs_link *link);

/* Checks the peer's record and connects the link with the queue pair that it names. After that writes of the
 * peer are taken. Errors: tuttiRemoteError (nonsense), tuttiSystemError. */
tuttiResult_t tt_verbs_link_join(struct verbs_link *link, const struct tt_settings *settings,
                                 const struct verbs_record *mine, const struct verbs_record *theirs);

/* Proves that a write arrives at the peer, whose queue pair is ready: tuttiInProgress until the peer's device has
 * acknowledged it. Errors: tuttiSystemError. */
tuttiResult_t tt_verbs_link_prove(struct verbs_link *link);

/* When it returns, neither side's device writes or reads for this link any more. */
void tt_verbs_link_halt(struct verbs_link *link);
void tt_verbs_link_destroy(struct verbs_link *link); /* NULL and half-made are allowed */

/* tt_fail_quiet with "<verb> on <device> port <n>: <what errno says>" and, where one is known, the remedy. */
tuttiResult_t tt_verbs_fail(const struct verbs_device *device, const char *verb, int error);

/* Writes ": this process has a limit of ... for locked memory" and the remedy; returns text. Registered memory counts
 * as locked. */
const char *tt_verbs_locked_text(char *text, size_t size);

/* ---- sleeping (verbs_event.c) ---- */

int tt_verbs_link_descriptor(struct tt_link *link, uint32_t *events); /* see struct tt_link_ops */
void tt_verbs_link_acknowledge(struct verbs_link *link); /* before its completion queue is destroyed */

/* ---- data (verbs_link.c) ---- */

extern const struct tt_link_ops tt_verbs_link_ops;

/* Number of receives that are kept posted, at most at once. */
static inline uint32_t tt_verbs_receives(uint32_t slots)
{
  return slots + 4 + 2 + 1 + 1 + VERBS_RECEIVES_AT_ONCE;
}

/* Posts the first receives. 0, or an errno. */
int tt_verbs_receives_post(struct verbs_link *link, uint32_t count);

/* 1 if all messages that were sent to their end have arrived in the peer's memory, or never will; 0: ask again. */
int tt_verbs_link_is_sent(struct verbs_link *link);

/* 1: nothing under way reads or writes memory of this process outside of the link's own. */
static inline int tt_verbs_link_is_idle(const struct verbs_link *link)
{
  const struct verbs_sender *out = &link->out;
  int has_asked = out->left > 0 && (out->asked == VERBS_ASKED || out->asked == VERBS_GRANTED);
  return !out->lent_bytes && !has_asked && !link->in.granted;
}

/* Polls for completions. 1 if there were some, 0, or TT_LINK_BROKEN. */
ssize_t tt_verbs_link_pull(struct verbs_link *link);

/* Marks the link as broken for good, with its reason; returns TT_LINK_BROKEN. */
ssize_t tt_verbs_break(struct verbs_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One write to the peer. */
struct verbs_write {
  struct ibv_sge pieces[2]; /* empty ones last */
  uint64_t to;
  uint32_t key;
  int is_signaled; /* asks for a completion; else only one in signal_every does */
};

/* 1 if the send queue has a place for one work request, and `reserve` more. */
static inline int tt_verbs_has_place(const struct verbs_link *link, uint32_t reserve)
{
  return link->out.posted - link->out.retired + reserve < link->sends;
}

/* Posts a write, for which the send queue has a place. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_post(struct verbs_link *link, enum verbs_kind kind, const struct verbs_write *write);

/* ---- straight into place, from the caller's memory (verbs_direct.c) ---- */

/* Records that the message's next `len` bytes were posted with work request `posted`, or copied if that is 0. */
static inline void tt_verbs_lend(struct verbs_sender *out, uint64_t posted, size_t len)
{
  out->pieces[out->lent++ % out->room] = (struct verbs_piece){posted, len};
  out->lent_bytes += len;
}

/* Returns how many of those bytes have become the caller's again since the last call. */
static inline size_t tt_verbs_take_back(struct verbs_sender *out)
{
  size_t len = 0;
  while (out->taken != out->lent && out->pieces[out->taken % out->room].posted <= out->retired)
    len += out->pieces[out->taken++ % out->room].len;
  out->lent_bytes -= len;
  return len;
}

/* Begins the next message. `word` is that of its call alone, so that calls of one shape have the same low half. */
void tt_verbs_refusals_begin(struct verbs_refusals *refusals, uint64_t word);

/* 1 if the message should begin with a question: all of its `len` bytes are offered, at `data`. */
int tt_verbs_should_ask(const struct verbs_link *link, const void *data, size_t len);

/* Takes the answer that has arrived, with this number. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_answer_take(struct verbs_link *link, enum verbs_kind kind, uint32_t number);

/* Writes up to `len` of the message's next bytes to the granted place. Returns how many it took, 0 if there is no
 * place in the send queue, or TT_LINK_BROKEN. */
ssize_t tt_verbs_direct_write(struct verbs_link *link, const void *data, size_t len);

/* Answers the question of the opened fragment, which was opened by recv with `room` bytes at `to`, or by peek: NULL. */
void tt_verbs_answer(struct verbs_link *link, void *to, size_t room);

/* Posts the answer that is due, if it can be. */
void tt_verbs_answer_post(struct verbs_link *link);

/* Takes a VERBS_WRITTEN that has arrived, after `len` bytes. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_written_take(struct verbs_link *link, size_t len);

#endif
#endif
