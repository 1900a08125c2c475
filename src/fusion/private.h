/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder. A fusion is three structs, by who may touch them: `config` is made at creation and only read
 * from then on; `shared` is used under its mutex; `engine` is the engine thread's alone. */
#ifndef TT_FUSION_PRIVATE_H
#define TT_FUSION_PRIVATE_H

#include "comm/comm.h"
#include "fusion/fusion.h"
#include "fusion/trial_private.h"
#include "planner/plan.h"
#include "reduce/norm.h"

#define CHANNELS 8
#define HISTORY 12 /* steps whose times are kept */
#define CLASSES 64 /* of sizes: powers of two from 64 bytes on, and in the middle between two */
#define NAME_BYTES 128

/* ---- config ---- */

struct tensor {
  uint64_t count;
  size_t bytes; /* in memory */
  int type;
  int element;      /* bytes of one */
  int wire_element; /* as it travels */
  char name[NAME_BYTES];
};

struct config {
  struct tuttiComm *channel[CHANNELS];
  int nchannels, nranks, rank, n;
  struct tensor *tensors; /* n of them */
  int redop, wire, reports, norms;
  struct tt_policy policy;
  char policy_text[64];
  struct tt_message_cost priced;     /* by the selector's prices, rank 0's */
  char *buffer;
  size_t buffer_bytes, asked_bytes;  /* of it; as asked for */
  uint64_t timeout_ns, warn_ns;      /* 0: never */
};

/* ---- a plan ---- */

/* A piece of a tensor in a message. */
struct part {
  int32_t tensor;
  uint64_t first, count; /* elements */
  size_t at;             /* bytes: where it lies in the message */
};

struct message {
  int32_t group;
  int type;
  int first_part, nparts; /* of the plan's parts */
  uint64_t count;
  size_t bytes;           /* in memory */
  uint64_t wire_bytes;
  int32_t played;         /* which of the play it is (a piece of) */
};

struct cut {
  int32_t group, nparts; /* of a tensor: the group it is in, the parts it is cut into */
};

/* The messages of a step, and their order. Nothing but `refs` changes once it is made (plan.c), so what was measured of
 * a plan stays true of it. It is freed with the last reference, and all references are the engine's. */
struct plan {
  struct tt_fusion_plan fusion; /* groups */
  struct tt_played played;      /* by the numbers that it was made of: its messages stay in this order */
  int32_t nmessages, nparts;
  const struct message *messages;
  const struct part *parts;
  const struct cut *cuts;       /* of each tensor */
  int refs;
};

/* ---- shared: under the mutex ---- */

/* A tensor as users push it and wait for it. Steps count from 1. */
struct gradient {
  uint64_t pushed, waited, done; /* the last step in which it was */
  _Atomic uint64_t ready;        /* likewise, for the engine; send and recv are written before it, so that the engine,
                                    which has seen the step here, reads them without the mutex */
  const void *send;
  void *recv;
  struct tuttiStream *stream;    /* what is still waited for before it counts as pushed; NULL: nothing */
  uint64_t stream_mark;
  uint64_t push_ns, wait_ns, waited_ns; /* of this step: pushed (or its stream came so far), first wait, its end */
  int waiters;
  float ready_us[HISTORY], forward_us[HISTORY]; /* of the last steps whose times are complete */
  double norm; /* of its last sum */
};

struct scale {
  float before, after;
};

/* One is pushed while another is sent. */
struct step {
  int nwaited; /* tensors */
  struct scale scale;
  int overflow;
  uint64_t copied;
};

/* The engine sleeps. */
struct sleep {
  int is_asleep;
  int32_t wanted; /* group whose tensors it sleeps for */
  uint64_t bytes; /* pushed meanwhile */
};

/* times.c */
struct times {
  uint64_t first_push_ns, last_wait_ns; /* of the last step begun */
  uint64_t wait_sum_ns;                 /* spent in waits in it */
  uint64_t timed, recorded;             /* the last step whose times were taken; that are complete */
  float backward_us[HISTORY], iterations_us[HISTORY];
  double iteration_us, exposed_us;
};

/* Addresses; end 0: not known. */
struct range {
  uintptr_t begin, end;
};

/* ranges.c */
struct ranges {
  struct range *sums;    /* of each tensor: where its sum was written last */
  struct range *inputs;   /* likewise: where its contribution was, if that was elsewhere */
  int32_t *by_address;   /* tensors with a known sum */
  int32_t nsums, ninputs; /* known ones */
};

struct interval {
  uint64_t begin_ns, end_ns;
};

/* The plan in use, as users are told of it. The engine alone writes this, and so reads it without the mutex. */
struct planned {
  const struct plan *plan;   /* the engine holds it */
  uint64_t plans, step;      /* so many were used so far; the first step with this one */
  int is_measured;           /* the plan is of measured times, or was found to be good for them */
  double bound_us;           /* then: no plan takes less by the newest times; else -1 */
  struct tt_played expected; /* how this one is expected to go by these */
  struct interval *sent;     /* of each message, in the last step; end 0: not yet */
};

struct shared {
  pthread_mutex_t mutex;
  pthread_cond_t wake, done;  /* the engine; those who wait */
  struct gradient *gradients; /* of all tensors */
  uint64_t step;              /* the last one begun; 0: none */
  int npushed;                /* tensors in it */
  uint64_t ended;             /* the last step that was waited for as a whole */
  uint64_t finished;          /* the last step whose sums are all there: the engine is at the next one */
  int ndone;                  /* tensors of that one whose sums are there */
  int32_t *missing;           /* of each group: tensors that are not ready in it */
  uint64_t pushes;            /* counts what the engine has to look at */
  int nstreams;               /* tensors that wait for their stream */
  int all_waiters;            /* who waits for all tensors */
  int is_stopping;
  tuttiResult_t failed;
  char sentence[TT_SENTENCE_BYTES];
  struct scale scale;         /* of the next step */
  struct step steps[2];       /* by their number mod 2 */
  struct sleep sleep;
  struct times times;
  struct ranges ranges;
  struct planned planned;
};

/* ---- engine ---- */

/* The numbers that plans are made of. */
struct known {
  struct tt_tensor *facts; /* of net */
  struct tt_model net;
  struct tt_message_cost cost;
  double ratios[CLASSES];   /* of each size class: measured / priced; 0: not known */
  double known_us[CLASSES]; /* the priced time of the messages this was measured of, older ones counting less */
};

/* A tensor in this step. */
struct tensor_progress {
  int32_t parts_left;      /* not yet back */
  struct tt_norm norm;     /* of the parts that are back */
  const void *last_send;   /* where it was when it was last copied or sent; NULL: never */
  void *last_recv;
};

enum message_state { TO_SEND, UNDER_WAY, CAME, OVER };

/* A message in this step. */
struct message_progress {
  enum message_state state;
  int has_room;     /* bytes of the ring at `at` */
  size_t at;
  int parts_in;     /* copied already */
  int parts_before; /* those from here on were, since it has room */
  struct tt_op *op;
  int overflow;
  uint64_t begin_ns;
  float took_us[HISTORY]; /* in the last steps */
};

/* Messages that were given room in the fusion buffer, the oldest first. */
struct ring {
  int32_t *messages; /* as many places as the plan has messages */
  int32_t first, n;
  int32_t next;      /* to be given room */
  int32_t forced;    /* needs room before later ones are given any; -1: none does */
};

/* One copy at a time: of a part into the buffer, or out of it and into the norm. */
struct copying {
  const struct tt_device *device;
  tt_ticket ticket;         /* 0: nothing is under way */
  const struct part *in;    /* NULL: none */
  int32_t message;          /* its */
  const struct part *out;   /* NULL: none */
  size_t done, added;       /* bytes: copied; in the norm */
  int is_fetched;           /* the next piece for the norm is in host memory */
};

/* How far users were when the engine looked last. */
struct seen {
  int is_next_pushed; /* all tensors of the next message were */
  struct scale scale; /* of the engine's step, then */
  uint64_t pushes;
  int nstreams;
};

struct engine {
  uint64_t step;         /* that it is at */
  uint64_t agree_step;   /* at whose end ranks agree */
  uint64_t agreements;
  struct known known;
  struct plan *used;     /* the plan */
  struct tt_trial trial; /* auto's: */
  struct plan *kept, *beaten; /* in use before the trial; before the plan that stays */
  struct tensor_progress *tensors;
  struct message_progress *messages; /* of the plan in use */
  uint8_t *is_in;                    /* of its parts: copied into the buffer in this step */
  int32_t next, back;    /* messages: to be sent, to come out */
  int out_part;          /* of the message at `back` */
  struct ring ring;
  struct copying copying;
  void *fetched;         /* a piece of a device's memory */
  uint64_t looks, looked; /* counts what may let something be copied in; when there was nothing */
  uint64_t copied;       /* bytes, in this step */
  struct seen seen;
  struct tt_waiter waiter;
};

struct tuttiFusion {
  uint32_t magic;
  struct config config;
  struct shared shared;
  struct engine engine;
  pthread_t thread; /* the engine's */
  int has_thread;
};

/* ---- plan.c ---- */

/* By this policy and these numbers; the caller holds it. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_plans_make(struct plan **plan, const struct config *config, const struct tt_policy *policy,
                                   const struct known *known);

/* *holder holds this plan in place of the one that it held; either may be NULL. A plan that nobody holds is freed. */
void tt_fusion_plans_hold(struct plan **holder, struct plan *plan);

/* ---- plans.c: which plan is used ---- */

/* The first plan: nothing is known but sizes. */
tuttiResult_t tt_fusion_plans_first(struct tuttiFusion *fusion);

/* Plans by policy and what is known now, and uses that in place of the present plan if it is another one. Auto tries it
 * if it promises something, and comes back to what was better (trial_private.h): iteration_us is what ranks agree that
 * an iteration takes by the present plan, 0: not known. The engine's, between steps. */
tuttiResult_t tt_fusion_plans_renew(struct tuttiFusion *fusion, double iteration_us);

/* No plan is held or in use any more. */
void tt_fusion_plans_free(struct tuttiFusion *fusion);

/* Counts anew what is missing of each group in the engine's step. Under the mutex. */
void tt_fusion_missing_count(const struct config *config, struct shared *shared);

/* ---- times.c ---- */

/* Under the mutex: times of the step are complete, if they were not before; another step begins with a push. */
void tt_fusion_times_take(const struct config *config, struct shared *shared, uint64_t now_ns);
void tt_fusion_step_begins(const struct config *config, struct shared *shared, uint64_t now_ns);

/* Before the first plan: what some rows of messages take. */
tuttiResult_t tt_fusion_probe(const struct config *config, struct known *known);

/* The engine's, at the end of agree_step, with no message under way: agrees with all ranks on what was measured, and
 * makes a plan of it if that is better. Takes as long as the slowest rank. */
tuttiResult_t tt_fusion_agree(struct tuttiFusion *fusion);

/* ---- create.c ---- */

/* This rank's own result: those who wait for it on any of the channels, which end with that, hear of an error. Returns
 * what counts on all ranks. */
tuttiResult_t tt_fusion_told(const struct config *config, tuttiResult_t result);

/* Ends all channels, on all ranks, for the calling thread's last sentence. */
void tt_fusion_end(const struct config *config, tuttiResult_t result);

/* ---- compare.c ---- */

/* Errors: tuttiInvalidUsage, on all ranks: two of them have other options or tensors. */
tuttiResult_t tt_fusion_compare(const struct config *config);

/* ---- ranges.c: under the mutex ---- */

/* Whether the tensor's buffers may be used: no sum is written to where another tensor's is or will be, or its
 * contribution lies, that was not waited for yet. */
tuttiResult_t tt_fusion_range_check(const struct config *config, struct shared *shared, int tensor,
                                    const struct tt_pushed *pushed);

/* They are, having been checked. */
void tt_fusion_range_take(const struct config *config, struct shared *shared, int tensor,
                          const struct tt_pushed *pushed);

/* ---- copies.c: the fusion buffer ---- */

/* One piece of copying, the most urgent there is. 1: something was done. */
int tt_fusion_copy(struct tuttiFusion *fusion, tuttiResult_t *result);

/* Where the message is to be sent from and received to: NULL: it is not there yet. */
int tt_fusion_place(struct tuttiFusion *fusion, int32_t message, const void **in, void **out);

/* ---- engine.c ---- */

void *tt_fusion_main(void *fusion);

/* Nothing of the engine's step was done yet. */
void tt_fusion_step_start(struct tuttiFusion *fusion);

/* A tensor that was pushed is there. Under the mutex. */
void tt_fusion_ready(struct tuttiFusion *fusion, int tensor);

/* With the mutex, which is given away meanwhile: until told, or so long, less than a second. */
void tt_fusion_idle(struct shared *shared, pthread_cond_t *until_told, uint64_t ns);

/* Runs a collective of the fusion's own on channel 0, which has nothing under way, in place: rank r's share of an
 * all-gather is the r-th `count` elements of data. */
tuttiResult_t tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                            int redop);

/* Before the engine is there: so many sums of so many bytes of the buffer, which has room for one on each channel, each
 * begun when the engine would. */
tuttiResult_t tt_fusion_row(const struct config *config, size_t bytes, int messages);

/* Everything ends: the calling thread's last sentence. */
void tt_fusion_fail(struct tuttiFusion *fusion, tuttiResult_t result);

#endif
