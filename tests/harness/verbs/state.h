/* SPDX-License-Identifier: BSD-3-Clause */
/* What the two libraries know. Everything that another process must find lies in one shared segment under one mutex;
 * the work that a process has posted is its own, and only it does that work. */
#ifndef FAKE_VERBS_STATE_H
#define FAKE_VERBS_STATE_H

#include <pthread.h>
#include <stdint.h>

#pragma GCC visibility push(default) /* what these declare is what the libraries export */
#include <infiniband/verbs.h>

#include "fake_verbs.h"

enum { QPS = 512, CQS = 512, MRS = 4096, CONTEXTS = 128, USERS = 256 };
enum { DEPTH = 1024, CQES = 8192, SGES = 4, INLINE = 256, EVENTS = 16 };

/* Who has a slot: none if pid is 0, or if that process is gone. */
struct owner {
  int32_t pid;
  uint32_t generation; /* of the slot, counts up */
  void *object;        /* in that process */
};

struct cqe {
  struct ibv_wc wc;
  int is_recv;
  uint64_t end; /* places of the queue that are free once this is polled */
};

struct cq {
  struct owner owner;
  int fd;              /* of the channel, in the owner; -1: none */
  int context;
  int armed;           /* 1: for any completion, 2: for solicited ones and errors */
  long untold, told;   /* events: not yet in the descriptor, there and not fetched */
  long fetched, acked;
  int size, is_overrun;
  uint64_t in, out;
  struct cqe ring[CQES];
};

struct receive {
  uint64_t id;
  int nsge;
  struct ibv_sge sge[SGES];
};

struct qp {
  struct owner owner;
  uint32_t number, peer;
  int context, pd, send_cq, recv_cq, state;
  unsigned access;
  uint32_t sq_psn, rq_psn;
  union ibv_gid gid, peer_gid;
  uint8_t port, timeout, retry_cnt, rnr_retry, min_rnr_timer, rd_atomic;
  int depth; /* of the queue of receives */
  uint64_t posted, taken, freed;
  struct receive ring[DEPTH];
};

struct mr {
  struct owner owner;
  int pd, context;
  uint32_t key; /* local; the remote one is this + 1 */
  unsigned access;
  uint64_t iova, len;
  char *memory; /* in the owner */
  int is_mapped;
};

struct event {
  enum ibv_event_type type;
  uint32_t slot; /* of the queue pair or completion queue */
};

struct context {
  struct owner owner;
  int device, fd;
  int is_of_cm;
  long untold;
  unsigned in, out;
  struct event events[EVENTS];
};

struct segment {
  uint32_t magic;
  int32_t users[USERS]; /* processes that have mapped it by its name */
  pthread_mutex_t mutex;
  _Atomic uint32_t ticks; /* a futex: something has changed that another process may wait for */
  struct fake_settings settings;
  struct fake_verbs_counts counts;
  char fail_verb[40], failed[40];
  uint64_t random, seeded;
  uint64_t serial; /* of posts */
  uint32_t pds;
  struct context contexts[CONTEXTS];
  struct mr mrs[MRS];
  struct qp qps[QPS];
  struct cq cqs[CQS];
};

/* ---- objects of this process; each begins with the library's own ---- */

struct send {
  uint64_t id, serial;
  int opcode, flags, nsge, status;
  uint32_t imm, rkey;
  uint64_t address, len, hash;
  uint64_t move_ns, tell_ns; /* not before */
  uint64_t tried_ns;         /* first tried in vain, 0: not yet */
  struct ibv_sge sge[SGES];
  char bytes[INLINE];        /* with IBV_SEND_INLINE */
};

struct fake_qp {
  struct ibv_qp qp;
  int slot;
  struct ibv_qp_cap cap;
  int all_signaled;
  struct send *ring;
  uint64_t posted, moved, told, freed; /* in order: freed <= told <= moved <= posted */
  uint64_t flushed;                    /* of the receives */
  struct fake_qp *next;
};

struct fake_cq {
  struct ibv_cq cq;
  int slot;
};

struct fake_channel {
  struct ibv_comp_channel channel;
};

struct fake_pd {
  struct ibv_pd pd;
  int number;
  long users;
};

struct fake_mr {
  struct ibv_mr mr;
  int slot;
};

struct fake_context {
  struct verbs_context verbs; /* ends with the context */
  int slot;
  long users;
};

/* ---- segment.c ---- */

extern struct segment *fake_segment;
#define COUNTS (fake_segment->counts)
#define SETTINGS (fake_segment->settings)

void fake_lock(void);
void fake_unlock(void);
/* Wakes all who wait for ticks. */
void fake_poke(void);
uint64_t fake_now_ns(void);
/* 0 .. n - 1; 0 without a seed. Locked. */
uint64_t fake_draw(uint64_t n);
/* 1 if nobody has the slot, or only a process that is gone. */
int fake_is_free(const struct owner *owner);
void fake_own(struct owner *owner, void *object);
void fake_breach(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Counts the call; 0, or the error that it must return, which is in errno too. Locks by itself. */
int fake_fails(const char *verb);
/* The same of a verb that frees something: a device that is gone does not keep it from that. */
int fake_fails_late(const char *verb);

/* ---- device.c ---- */

struct ibv_context *fake_open(int device, int is_of_cm);
int fake_close(struct ibv_context *context);
int fake_context_slot(const struct ibv_context *context);
void fake_context_use(const struct ibv_context *context, long change);
int fake_gid(int device, int port, int index, struct ibv_gid_entry *entry); /* 0, or ENODATA */
/* Locked. */
void fake_event(int context, enum ibv_event_type type, int slot);
/* The object is gone: who has not fetched its events will not get them. */
void fake_event_forget(int context, enum ibv_event_type type, int slot);

/* ---- queue.c ---- */

/* A completion for the queue, and its event. Locked. */
void fake_complete(int slot, const struct cqe *cqe, int is_solicited);
/* Events of this process's objects go into its descriptors. Locked. */
void fake_tell(void);

/* ---- memory.c ---- */

struct mr *fake_region(uint32_t key, int is_remote); /* NULL: none. Locked */
/* Where `len` bytes at `address` lie in the memory of the region's process; NULL if they are not all in it, it is of
 * another domain, or has not all of `access`. */
char *fake_reach(const struct mr *mr, int pd, uint64_t address, uint64_t len, unsigned access);

/* ---- work.c ---- */

void fake_qp_add(struct fake_qp *qp);
void fake_qp_remove(struct fake_qp *qp);
/* Does work of this process that is due. Locked. Returns when there is something due again, UINT64_MAX: nothing. */
uint64_t fake_work(int most);
struct qp *fake_qp_of(uint32_t number); /* NULL: there is none. Locked */
void fake_qp_break(struct qp *qp);      /* into the error state */
int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
void fake_polled(const struct cqe *cqe);
int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
int fake_req_notify_cq(struct ibv_cq *cq, int solicited_only);

/* ---- wire.c ---- */

/* Moves the data of a work request to the other end: 1: done, send->status says how. 0: not now. Locked. */
int fake_move(struct fake_qp *qp, struct send *send, uint64_t now);
void fake_scribble(struct fake_qp *qp, const struct send *send);
uint64_t fake_hash(struct fake_qp *qp, const struct send *send); /* of the source; breaches if it is gone */

/* ---- engine.c ---- */

void fake_engine_start(void); /* one thread a process, as long as it has contexts */
void fake_engine_stop(void);

#pragma GCC visibility pop

#endif
