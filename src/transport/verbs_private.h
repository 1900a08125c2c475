/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport: a reliable-connected queue pair per peer and lane. Private to transport and its tests.
 *
 * Set-up. As with tcp the lower rank dials the higher one's listener (TT_HELLO_QUEUE_PAIR, so the connection is
 * authenticated both ways), and both write one struct verbs_record over it. Who has checked the other's record and
 * moved its queue pair to "ready to send" writes one byte, VERBS_READY; who has read that proves the way with one
 * VERBS_CREDIT and, once the peer's device has acknowledged it, writes a second byte, VERBS_PROVEN; who has read that
 * may post. The socket stays and says when the peer is gone: who ends in good order waits for its writes to arrive only
 * as long as it is there.
 *
 * Who cannot do one of these three things (memory that may be locked is used up; there is no way between the two
 * devices, which the device finds out when its retries are used up) writes a refusal in its place: a record of nothing
 * but VERBS_NO_MAGIC, or VERBS_NO. Who has written or read one has no link on this lane, and the next transport is
 * taken: a link is open only if both have written and read all three. A link that has been open and fails is an error.
 *
 * Ring. Each side registers `slots` slots of `slot_bytes` for the peer to write to, and as many to send from. A message
 * travels as *fragments*, each written by one RDMA write with immediate into the slot that is next in turn:
 *
 *   first fragment   word 8 | len 8   of the message | call 32 | payload
 *   later ones       word 8 | at 8    place in it    | payload
 *
 * The payload's length is what the completion says was written less the head; it is a multiple of 16 unless it ends the
 * message, so that elements arrive whole. Immediate data, from the highest bit:
 *
 *   kind 3 | number 13: of the fragment on this queue pair, from 0, its low bits; VERBS_REDUCES or 0 with a refusal, 0
 *   with the rest | freed 16: slots that this side has emptied so far, its low bits
 *
 * Kinds: VERBS_FRAGMENT; VERBS_CREDIT, an empty write that only says `freed`; and those of the next but one paragraph.
 *
 * Credits. A sender writes only into slots that the peer has emptied: fragments written - freed < slots. Who has
 * emptied a quarter of the ring and had no fragment to say it in sends VERBS_CREDIT, which needs no credit: of those
 * at most four can come on top of `slots` fragments before this side looks and posts new receives, nor more than one
 * answer, one VERBS_WRITTEN and the one that proves the way; so many receives are kept. So a queue pair always finds a
 * receive, and waits for nothing but the peer's device.
 *
 * Straight into place. A message of TUTTI_IB_DIRECT_BYTES or more that is offered as a whole, in registered memory
 * (verbs_memory_private.h), begins with a VERBS_ASK: a fragment with a short payload, whose sender sends nothing more
 * of the message until it has the answer. The receiver gives that when it opens the fragment: VERBS_GRANT, if it does
 * so in `recv` with room for the whole message in registered memory, else VERBS_REFUSAL. A grant brings a struct
 * verbs_answer, written to a place behind the two halves of the memory: where the rest of the message goes, and the key
 * to it. The sender writes the rest there, the last write with immediate, VERBS_WRITTEN; until that has come the
 * receiver takes no further fragment. After a refusal the rest comes as fragments. Who opens the fragment in `peek`, to
 * reduce what comes, says so with the refusal (VERBS_REDUCES): the sender does not ask again for the message of this
 * number among those of a call, as long as this link carries calls of the same shape (struct verbs_refusals). Neither
 * answer nor VERBS_WRITTEN needs a credit: of a queue pair and direction one message is under way, so one question, one
 * answer, one end. The answer waits for nothing but a place in the queue of sends, which the device gives back: so no
 * pattern of messages can lock.
 *
 * From where it lies. Payload of VERBS_LEND_BYTES or more in registered memory is not copied into the slot, whence only
 * the head comes. What is sent from the caller's memory, this way or straight into place, is taken (tt_link_ops.send)
 * when its write has completed: so who has got all of a message's bytes taken may change them, and who has not, has
 * not succeeded. tt_verbs_link_halt destroys the queue pair, which ends all reading and writing by this device for it;
 * then the transport gives up all regions, so that keys which peers were granted open nothing. A peer that was granted
 * a key can write to all of its region until then: it has proved to hold the job's key.
 *
 * A slot of the outgoing half is used again when its write has completed, and then only if the peer has emptied the
 * same slot of its ring. Completions are asked for of the last fragments of messages, of whatever is sent from where
 * it lies, of answers, and of every few work requests between (struct verbs_link: signal_every); they also give back
 * places in the queue of sends. Who destroys its transport in good order waits for the first two.
 *
 * Failures. A queue pair of which a work request fails breaks its link; the device's events break the link whose queue
 * pair they name, or all if the device is gone. A port that is down breaks nothing: it may come back before the retries
 * are used up. Who only sees its work flushed waits FLUSH_PATIENCE_NS for the event that says why.
 *
 * Integers are little endian, immediate data is in network order as verbs want it. What comes from the peer places
 * nothing: every field is compared with what the receiver expects. */
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
#define VERBS_SILENT ((enum verbs_kind)-1) /* of a write: without immediate */
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
#define VERBS_ANSWER_BYTES 64 /* a place for one: behind the halves first that which the peer writes to */

#define VERBS_FIRST_BYTES sizeof(struct verbs_head)
#define VERBS_LATER_BYTES offsetof(struct verbs_head, call)

#define VERBS_SLOTS_MOST 1024
#define VERBS_SIGNAL_MOST 8 /* work requests without a completion in a row, at most one less */
#define VERBS_RECEIVES_AT_ONCE 8 /* new receives are posted in bunches of so many */
#define VERBS_LEND_BYTES 16384 /* copied at 10 GB/s it takes 1.6 us, about as long as its completion; not tuned */
#define VERBS_ASK_BYTES 8192   /* payload of a question: on the wire while it is answered */
#define VERBS_WRITE_BYTES ((size_t)1 << 20) /* of one write straight into place */
#define VERBS_REFUSALS_WORDS 8                /* of 64 messages each */
#define VERBS_INLINE_BYTES 224u  /* asked for; small writes then need no second look at memory by the device */

/* What peer info and record tell of a device. */
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
  struct ibv_comp_channel *channel; /* of all its links: who waits sleeps on it */
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

/* Takes what the device has to tell of itself, its port and its queue pairs (verbs_event.c), without waiting. Goes into
 * the device and into those of its links that are meant. */
void tt_verbs_device_look(struct verbs_device *device);

/* How far the question has come that a message began with. */
enum verbs_asked { VERBS_MAY_ASK, VERBS_ASKED, VERBS_GRANTED, VERBS_NO_MORE };

/* Bytes that were posted and that the caller does not know to be taken. */
struct verbs_piece {
  uint64_t posted; /* with the work request of this number; 0: copied */
  size_t len;
};

/* Which messages of a call are reduced where they arrive: those of a later call of its shape are, too. */
struct verbs_refusals {
  uint32_t shape, op; /* of the message under way: the halves of its call's word */
  uint32_t number;    /* of that message among those of its call on this link, from 0 */
  uint64_t reduced[VERBS_REFUSALS_WORDS]; /* bits */
};

struct verbs_sender {
  uint64_t word, len, left; /* of the message under way; left: not posted */
  struct tt_call call;
  enum verbs_asked asked;   /* of the message under way */
  uint64_t to;              /* granted: where the rest goes, */
  uint32_t key;             /* and the key */
  struct verbs_piece *pieces; /* [room]: a queue */
  uint32_t room;            /* as many as there are places in the queue of sends */
  uint64_t lent, taken;     /* pieces that were put in, and taken out */
  size_t lent_bytes;        /* of those in it */
  uint64_t written;         /* fragments */
  uint64_t freed;           /* of their slots, by the peer */
  uint64_t posted, retired; /* work requests */
  uint64_t asks, directs;   /* messages that asked, and that went straight into place */
  struct verbs_refusals refusals;
  uint64_t ended;           /* posted, with the last message's last fragment */
  uint64_t *posted_as;      /* [slots]: posted, with the newest fragment from that slot */
};

struct verbs_receiver {
  uint64_t word, len, left;
  const uint8_t *data;   /* of the open fragment */
  size_t shown;          /* bytes of it from data on; 0: none is open */
  uint64_t arrived;      /* fragments */
  uint64_t freed, told;  /* slots emptied; what the peer knows of that */
  uint64_t asked;        /* number of the fragment that asks, + 1; 0: none does that has not been opened */
  enum verbs_kind answer; /* to be posted; 0: none */
  int is_reducing;       /* the refusal is because of that */
  uint64_t answered;     /* posted, with the last one */
  struct verbs_answer grant;
  size_t granted;        /* bytes that the peer writes, or has written, into place; 0: none */
  int is_written;        /* it has */
  uint32_t owed;         /* receives used up and not posted anew */
  uint32_t *lens;        /* [slots] of the fragments there */
};

struct verbs_link {
  struct tt_link base;
  struct verbs_device *device;
  struct ibv_cq *cq;
  struct ibv_qp *qp;
  struct ibv_mr *mr;
  uint8_t *memory;         /* the ring that the peer writes to, the slots to send from, places of answers likewise */
  size_t slot_bytes;
  uint32_t slots, inlined; /* inlined: bytes that the queue pair takes with the work request */
  uint32_t sends;          /* places in the queue of sends */
  size_t direct_bytes;     /* messages so long ask; 0: none does, and no question is granted */
  uint32_t signal_every;   /* of so many one asks for a completion: often enough that slots come back in time */
  uint64_t ring;           /* the peer's */
  uint32_t rkey;
  uint32_t idle;           /* looks in vain */
  int is_broken;
  uint64_t failing_ns;     /* since when its queue pair is known to have failed; 0: it has not */
  const char *event;       /* by which the device said so; NULL: none has come yet */
  int is_armed;            /* the next completion is an event of the device's channel */
  int has_news;            /* completions were taken since a waiter asked what to sleep on */
  unsigned unacknowledged; /* such events */
  struct verbs_sender out;
  struct verbs_receiver in;
};

/* ---- a queue pair (verbs_pair.c) ---- */

/* Makes a link with memory and a queue pair that is ready for nothing yet, and says what the peer must know of it.
 * Errors: tuttiSystemError with the verb, the device, errno and the remedy. */
tuttiResult_t tt_verbs_link_create(struct verbs_link **link, struct verbs_device *device,
                                   const struct tt_settings *settings, struct verbs_record *record);

/* Of its memory. */
size_t tt_verbs_link_bytes(const struct verbs_link *link);

/* Connects it with the queue pair that the peer's record names; what it says is checked. After that writes of the
 * peer are taken. Errors: tuttiRemoteError (nonsense), tuttiSystemError. */
tuttiResult_t tt_verbs_link_join(struct verbs_link *link, const struct tt_settings *settings,
                                 const struct verbs_record *mine, const struct verbs_record *theirs);

/* Sees that what is written arrives at the peer, whose queue pair is ready: tuttiInProgress until its device has said
 * so. Errors: tuttiSystemError. */
tuttiResult_t tt_verbs_link_prove(struct verbs_link *link);

/* No more is written or read by either side's device when it returns. */
void tt_verbs_link_halt(struct verbs_link *link);
void tt_verbs_link_destroy(struct verbs_link *link); /* NULL and half-made are allowed */

/* tt_fail_quiet with "<verb> on <device> port <n>: <what errno says>" and, where one is known, the remedy. */
tuttiResult_t tt_verbs_fail(const struct verbs_device *device, const char *verb, int error);

/* ": this process has a limit of ... for locked memory", as which registered memory counts, and what to do: text. */
const char *tt_verbs_locked_text(char *text, size_t size);

/* ---- sleeping (verbs_event.c) ---- */

int tt_verbs_link_descriptor(struct tt_link *link, uint32_t *events); /* see struct tt_link_ops */
void tt_verbs_link_acknowledge(struct verbs_link *link); /* before its completion queue is destroyed */

/* ---- data (verbs_link.c) ---- */

extern const struct tt_link_ops tt_verbs_link_ops;

/* Receives that are kept posted, so many at most at once. */
static inline uint32_t tt_verbs_receives(uint32_t slots)
{
  return slots + 4 + 2 + 1 + 1 + VERBS_RECEIVES_AT_ONCE;
}

/* Posts the first receives. 0, or an errno. */
int tt_verbs_receives_post(struct verbs_link *link, uint32_t count);

/* 1 if all messages that were sent to their end have arrived in the peer's memory, or never will; else look again. */
int tt_verbs_link_is_sent(struct verbs_link *link);

/* 1: nothing is under way of which memory outside of its ring is a source or a destination. */
static inline int tt_verbs_link_is_idle(const struct verbs_link *link)
{
  const struct verbs_sender *out = &link->out;
  int has_asked = out->left > 0 && (out->asked == VERBS_ASKED || out->asked == VERBS_GRANTED);
  return !out->lent_bytes && !has_asked && !link->in.granted;
}

/* Looks for completions. 1 if there were some, 0, or TT_LINK_BROKEN. */
ssize_t tt_verbs_link_pull(struct verbs_link *link);

/* The link is broken from now on, and this is why: TT_LINK_BROKEN. */
ssize_t tt_verbs_break(struct verbs_link *link, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* One write to the peer. */
struct verbs_write {
  struct ibv_sge pieces[2]; /* empty ones last */
  uint64_t to;
  uint32_t key;
  int is_signaled; /* else only now and then */
};

/* 1 if `reserve` more places are left in the queue of sends than are needed for one. */
static inline int tt_verbs_has_place(const struct verbs_link *link, uint32_t reserve)
{
  return link->out.posted - link->out.retired + reserve < link->sends;
}

/* Posts it; there is a place for it. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_post(struct verbs_link *link, enum verbs_kind kind, const struct verbs_write *write);

/* ---- straight into place, from where it lies (verbs_direct.c) ---- */

/* The next `len` bytes of the message under way were posted with work request `posted`, or, 0, copied. */
static inline void tt_verbs_lend(struct verbs_sender *out, uint64_t posted, size_t len)
{
  out->pieces[out->lent++ % out->room] = (struct verbs_piece){posted, len};
  out->lent_bytes += len;
}

/* How many bytes of those have become the caller's again since it was asked last. */
static inline size_t tt_verbs_take_back(struct verbs_sender *out)
{
  size_t len = 0;
  while (out->taken != out->lent && out->pieces[out->taken % out->room].posted <= out->retired)
    len += out->pieces[out->taken++ % out->room].len;
  out->lent_bytes -= len;
  return len;
}

/* The next message begins; the word is that of its call alone, so that calls of one shape have one. */
void tt_verbs_refusals_begin(struct verbs_refusals *refusals, uint64_t word);

/* 1 if the message should begin with a question: all of its `len` bytes are offered, at `data`. */
int tt_verbs_should_ask(const struct verbs_link *link, const void *data, size_t len);

/* The answer has arrived, with this number. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_answer_take(struct verbs_link *link, enum verbs_kind kind, uint32_t number);

/* Writes up to `len` of the message's next bytes where the peer has granted it: as fragments are sent. */
ssize_t tt_verbs_direct_write(struct verbs_link *link, const void *data, size_t len);

/* The fragment that has been opened asks. It was opened by recv with `room` bytes at `to`, or by peek, NULL. */
void tt_verbs_answer(struct verbs_link *link, void *to, size_t room);

/* Posts the answer that is due, if it can be. */
void tt_verbs_answer_post(struct verbs_link *link);

/* VERBS_WRITTEN has arrived, after `len` bytes. 1, or TT_LINK_BROKEN. */
ssize_t tt_verbs_written_take(struct verbs_link *link, size_t len);

#endif
#endif
