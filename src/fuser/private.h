/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder. Who may touch a field stands beside it: M under the mutex; E the engine alone; C set at
 * creation, read by all. */
#ifndef TT_FUSER_PRIVATE_H
#define TT_FUSER_PRIVATE_H

#include "comm/comm.h"
#include "fuser/fuser.h"
#include "fuser/trial.h"
#include "fusion/plan.h"
#include "reduce/norm.h"

#define CHANNELS 8
#define HISTORY 12 /* steps whose times are kept */
#define NAME_BYTES 128

struct tensor {
  char name[NAME_BYTES]; /* C */
  uint64_t count;        /* C */
  size_t bytes;          /* C: in memory */
  int type;              /* C */
  int element;           /* C: bytes of one */
  int wire_element;      /* C: as it travels */
  /* M; steps count from 1 */
  uint64_t pushed, waited, done; /* the last step in which it was */
  const void *send;
  void *recv;
  struct tuttiStream *stream; /* what is still waited for before it counts as pushed; NULL: nothing */
  uint64_t stream_mark;
  _Atomic uint64_t ready;      /* the last step in which it was, for the engine */
  uint64_t push_ns, wait_ns, waited_ns; /* of this step: pushed (or its stream came so far), first wait, its end */
  int waiters;
  float ready_us[HISTORY], forward_us[HISTORY]; /* of the last steps whose times are complete */
  double norm; /* of its last sum */
  /* E */
  int32_t group;          /* of the plan */
  int32_t parts_left;     /* of this step: not yet back */
  int32_t nparts;
  struct tt_norm norm_sum; /* of the parts that are back */
  const void *last_send;  /* where it was when it was last copied or sent; NULL: never */
  void *last_recv;
};

/* Addresses; end 0: not known. */
struct range {
  uintptr_t begin, end;
};

/* A piece of a tensor in a message. */
struct part {
  int32_t tensor;
  uint64_t first, count; /* elements */
  size_t at;             /* bytes: where it lies in the message */
  int is_in;             /* copied into the buffer in this step */
};

enum message_state { TO_SEND, UNDER_WAY, CAME, OVER };

struct message {
  int32_t group;
  int type;
  int first_part, nparts; /* in fuser->parts */
  uint64_t count;
  size_t bytes;           /* in memory */
  uint64_t wire_bytes;
  int32_t played;         /* which of the play it is (a piece of) */
  /* of this step */
  enum message_state state;
  int has_room;           /* bytes of the ring at `at` */
  size_t at;
  int parts_in;           /* copied already */
  int parts_before;       /* those from here on were, since it has room */
  struct tt_op *op;
  int overflow;
  uint64_t begin_ns, end_ns;
  /* of the last steps */
  uint64_t last_begin_ns, last_end_ns; /* M */
  float took_us[HISTORY];
};

/* One copy at a time: of a part into the buffer, or out of it and into the norm. */
struct copying {
  const struct tt_device *device;
  tt_ticket ticket;         /* 0: nothing is under way */
  struct part *part;        /* in: NULL: none */
  struct message *message;  /* its */
  const struct part *out_of; /* out: NULL: none */
  size_t done, added;       /* bytes: copied; in the norm */
  int is_fetched;           /* the next piece for the norm is in host memory */
};

/* A plan and the play whose order its messages had: what was measured of it was measured of that. */
struct as_sent {
  struct tt_fusion_plan plan;
  struct tt_played played;
};

struct tuttiFusion {
  uint32_t magic;
  struct tuttiComm *channel[CHANNELS]; /* C */
  int nchannels, nranks, rank, n;      /* C */
  struct tensor *tensors;              /* C */
  int redop, wire, reports, norms;     /* C */
  struct tt_policy policy;             /* C */
  char policy_text[64];                /* C */
  struct tt_message_cost priced;       /* C: by the selector's prices, rank 0's */
  char *buffer;                        /* C */
  size_t buffer_bytes, asked_bytes;    /* C: of it; as asked for */
  uint64_t timeout_ns, warn_ns;        /* C; 0: never */
  pthread_t thread;
  int has_thread;                      /* C */

  pthread_mutex_t mutex;
  pthread_cond_t wake, done; /* the engine; those who wait */
  /* M */
  uint64_t step;             /* the last one begun; 0: none */
  int npushed;               /* in it */
  int nwaited[2];            /* of steps by their number mod 2 */
  int ndone;                 /* tensors of engine_step */
  uint64_t pushes;           /* counts what the engine has to look at */
  uint64_t ended;            /* the last step that was waited for as a whole */
  int nstreams;              /* tensors that wait for their stream */
  int asleep, stopping;
  uint64_t slept_bytes;      /* pushed while it is asleep */
  tuttiResult_t failed;
  char sentence[TT_SENTENCE_BYTES];
  int all_waiters;           /* who waits for all tensors */
  float before, after;           /* of the next step */
  float step_before[2], step_after[2]; /* of steps by their number mod 2: one is pushed while another is sent */
  uint64_t engine_step;          /* that the engine is at; all before it are done */
  uint64_t first_push_ns, last_wait_ns; /* of step */
  uint64_t wait_sum_ns;          /* spent in waits in step */
  uint64_t timed, recorded;      /* the last step whose times were taken; that are complete */
  float backward_us[HISTORY], iterations_us[HISTORY];
  double iteration_us, exposed_us;
  int overflow[2];               /* of steps by their number mod 2 */
  uint64_t copied[2];
  int32_t *missing;              /* of each group: tensors not ready in engine_step */
  struct range *sums;            /* ranges.c: of each tensor: where its sum was written last */
  struct range *gifts;           /* likewise: where its contribution was, if that was elsewhere */
  int32_t *by_address;           /* tensors with a known sum */
  int32_t nsums, ngifts;         /* known ones */
  int32_t wanted;                /* group whose tensors the engine sleeps for */
  uint64_t plans, planned_step;
  uint64_t agreements;
  int is_measured;               /* the plan is of measured times, or was found to be good for them */
  /* the plan; changed by the engine under the mutex, read by it without */
  struct tt_tensor *facts;       /* of net */
  struct tt_net net;
  struct tt_fusion_plan plan;
  struct tt_played played;
  struct tt_message_cost cost;
  struct message *messages;
  int32_t nmessages;
  struct part *parts;
  double ratios[64];             /* of each size class: measured / priced; 0: not known */
  double known_us[64];           /* the priced time of the messages this was measured of, older ones counting less */
  double predicted_us, predicted_exposed_us; /* by the present plan and the newest times */

  /* E */
  uint64_t agree_step;           /* at whose end ranks agree */
  struct tt_trial trial;         /* auto's: */
  struct as_sent kept, beaten;   /* before the trial; before the plan that stays; no groups: none */
  int is_next_pushed;            /* all tensors of messages[next] were */
  int32_t forced;                /* message that needs room before later ones are given any; -1: none does */
  int32_t next, back, copy;      /* messages: to be sent, to come out, to be given room */
  int32_t *ring, ring_first, in_ring; /* messages that were given room, the oldest first; of nmessages places */
  int out_part;                  /* of the message at `back` */
  struct copying copying;
  void *fetched;                 /* a piece of a device's memory */
  uint64_t seen_pushes;          /* when users were looked at */
  int seen_streams;              /* likewise: nstreams */
  uint64_t looks, looked;        /* counts what may let something be copied in; when there was nothing */
  uint64_t copied_now;           /* bytes */
  struct tt_waiter waiter;
};

/* ---- plans.c ---- */

/* The first plan: nothing is known but sizes. */
tuttiResult_t tt_fuser_plan_first(struct tuttiFusion *fuser);
void tt_fuser_plan_free(struct tuttiFusion *fuser);
void tt_fuser_as_sent_free(struct as_sent *sent); /* it has no groups then */

/* Plans by policy, net and cost, all of them the newest; takes that, messages and parts of it, in place of the present
 * plan if it is another one. Auto tries it if it promises something, and comes back to what was better (trial.h):
 * iteration_us is what ranks agree that an iteration takes by the present plan, 0: not known. The engine's, between
 * steps. */
tuttiResult_t tt_fuser_plan_renew(struct tuttiFusion *fuser, double iteration_us);

/* Counts anew what is missing of each group in engine_step. Under the mutex. */
void tt_fuser_missing_count(struct tuttiFusion *fuser);

/* ---- times.c ---- */

/* Under the mutex: times of the step are complete, if they were not before; another step begins with a push. */
void tt_fuser_times_take(struct tuttiFusion *fuser, uint64_t now_ns);
void tt_fuser_step_begins(struct tuttiFusion *fuser, uint64_t now_ns);

/* Before the first plan: what some rows of messages take. */
tuttiResult_t tt_fuser_probe(struct tuttiFusion *fuser);

/* The engine's, at the end of agree_step, with no message under way: agrees with all ranks on what was measured, and
 * makes a plan of it if that is better. Takes as long as the slowest rank. */
tuttiResult_t tt_fuser_agree(struct tuttiFusion *fuser);

/* ---- create.c ---- */

/* This rank's own result: those who wait for it on any of the channels, which end with that, hear of an error. Returns
 * what counts on all ranks. */
tuttiResult_t tt_fuser_told(struct tuttiFusion *fuser, tuttiResult_t result);

/* Ends all channels, on all ranks, for the calling thread's last sentence. */
void tt_fuser_end(struct tuttiFusion *fuser, tuttiResult_t result);

/* ---- compare.c ---- */

/* Errors: tuttiInvalidUsage, on all ranks: two of them have other options or tensors. */
tuttiResult_t tt_fuser_compare(struct tuttiFusion *fuser);

/* ---- ranges.c: under the mutex ---- */

/* Whether the tensor's buffers may be used: no sum is written to where another tensor's is or will be, or its
 * contribution lies, that was not waited for yet. */
tuttiResult_t tt_fuser_range_check(struct tuttiFusion *fuser, int tensor, const struct tt_pushed *pushed);

/* They are, having been checked. */
void tt_fuser_range_take(struct tuttiFusion *fuser, int tensor, const struct tt_pushed *pushed);

/* ---- copies.c: the fusion buffer ---- */

/* One piece of copying, the most urgent there is. 1: something was done. */
int tt_fuser_copy(struct tuttiFusion *fuser, tuttiResult_t *result);

/* Where the message is to be sent from and received to: NULL: it is not there yet. */
int tt_fuser_place(struct tuttiFusion *fuser, struct message *message, const void **in, void **out);

/* ---- engine.c ---- */

void *tt_fuser_main(void *fuser);

/* Nothing of engine_step was done yet. */
void tt_fuser_step_start(struct tuttiFusion *fuser);

/* A tensor that was pushed is there. Under the mutex. */
void tt_fuser_ready(struct tuttiFusion *fuser, struct tensor *tensor);

/* With the mutex, which is given away meanwhile: until told, or so long, less than a second. */
void tt_fuser_doze(struct tuttiFusion *fuser, pthread_cond_t *until_told, uint64_t ns);

/* Runs a collective of the fusion's own on channel 0, which has nothing under way, in place: rank r's share of an
 * all-gather is the r-th `count` elements of data. */
tuttiResult_t tt_fuser_run(struct tuttiFusion *fuser, int collective, void *data, size_t count, int type, int redop);

/* Before the engine is there: so many sums of so many bytes of the buffer, which has room for one on each channel, each
 * begun when the engine would. */
tuttiResult_t tt_fuser_row(struct tuttiFusion *fuser, size_t bytes, int messages);

/* Everything ends: the calling thread's last sentence. */
void tt_fuser_fail(struct tuttiFusion *fuser, tuttiResult_t result);

#endif
