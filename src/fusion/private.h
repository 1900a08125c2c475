/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder. A fusion is three structs, divided by the threads that may touch them: `config` is made at
 * creation and only read from then on; `shared` is used under its mutex; `engine` is used by the engine thread
 * alone. */
#ifndef TT_FUSION_PRIVATE_H
#define TT_FUSION_PRIVATE_H

#include "codec/codec.h"
#include "comm/comm.h"
#include "fusion/fusion.h"
#include "fusion/move_private.h"
#include "fusion/sequence_private.h"
#include "fusion/round_private.h"
#include "fusion/shadow_private.h"
#include "fusion/trial_private.h"
#include "planner/plan.h"
#include "reduce/norm.h"
#include "tuner/tuner.h"

#define CHANNELS TT_SEQUENCE_CHANNELS
#define HISTORY 12 /* steps whose times are kept */
#define NAME_BYTES 128
#define RULE_BYTES 96    /* of an update's text */
#define UPDATE_PLANES 3  /* of an update, at most: weights, and what the rule keeps beside them */

/* ---- config ---- */

struct tensor {
  uint64_t count;
  size_t bytes; /* in memory */
  int type, element; /* element: bytes of one */
  char name[NAME_BYTES];
  size_t shadow;    /* where that is among those of all tensors */
  uint32_t row;     /* elements of a row of its matrix; 0: not told */
  int is_exempt;    /* its update has neither decay nor lambda */
  /* These follow from the codec; the engine changes them between steps, while nothing is pushed. */
  int is_coded;     /* its sums are coded reductions: it has a codec, or is updated by owners */
  int has_codec;
  uint64_t unit;    /* elements that are never cut apart: a grain, or by the route gather all */
  uint64_t wire_unit; /* bytes of so many as they travel; of a coded tensor those of an all-reduce that moves as many */
  uint32_t turn;    /* of a coded one (comm/coded.h) */
};

/* update.c: the way in which owners update weights. */
enum rule_kind { NO_UPDATE, SGD, MOMENTUM, LARS, EASGD, GOSSIP, FUNCTION };

struct rule {
  enum rule_kind kind;
  int planes, exchanges; /* planes 0: no update; exchanges 1: ranks push weights of their own (exchange.c), */
  int is_alpha_given;    /* and alpha does not follow from their number */
  float momentum, decay, eta, alpha;
  int weights; /* type in which those of fp32 tensors travel */
  tuttiFusionUpdate_t function;
  void *context;
};

struct serving {
  int is_on, quorum, staleness; /* is_on: there are servers (served.c) */
  int asked, wants_all;         /* the quorum before any move; 1: of one step, and that was all ranks */
};

struct config {
  struct tuttiComm *channel[CHANNELS + 2]; /* nplanned take messages as planned; of several ranks, then the reserve */
  struct tuttiComm *frames;                /* of rounds, the last one; NULL: this rank is alone */
  int nchannels, nplanned, nranks, rank, n;
  struct tensor *tensors; /* n of them, behind the fusion itself */
  int redop, wire, reports, norms;
  struct tt_codec codec; /* the first one; row NULL: none */
  uint64_t codec_least;
  struct rule rule;
  struct serving serving;
  struct moving moving;
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
  size_t at;             /* place in the message, in bytes */
};

struct message {
  int32_t group;
  int type, is_coded;
  int first_part, nparts; /* of the plan's parts */
  uint64_t count;
  size_t bytes;           /* in memory */
  uint64_t wire_bytes;
  int32_t played;         /* the message of the play of which it is all or a piece */
};

struct cut {
  int32_t group, nparts; /* of a tensor: its group; number of parts into which it is cut */
};

/* The messages of a step, and their order. Only `refs` changes once a plan is made (plan.c), so measurements of a plan
 * stay true of it. It is freed with the last reference, and all references are those of the engine. */
struct plan {
  struct tt_fusion_plan fusion; /* groups */
  struct tt_played played;      /* by the numbers of which it was made; messages stay in this order */
  int32_t nmessages, nparts;
  const struct message *messages;
  const struct part *parts;
  const struct cut *cuts;       /* of each tensor */
  int refs;
};

/* ---- shared: under the mutex ---- */

/* A tensor as users push it and wait for it. Steps count from 1. */
struct gradient {
  uint64_t pushed, waited, done; /* the last step in which it was that */
  _Atomic uint64_t ready;        /* likewise, for the engine; send and recv are written before it, so the engine, which
                                    has seen the step here, reads them without the mutex */
  const void *send;
  void *recv;
  void *gpu;                     /* as in tt_pushed; NULL again once the sum is there */
  struct tuttiStream *stream;    /* the push counts when this stream has come to stream_mark; NULL: at once */
  uint64_t stream_mark;
  uint64_t push_ns, wait_ns, waited_ns; /* of this step: push (or stream at its mark), first wait, end of the wait */
  int waiters, is_copied; /* is_copied: a caller who pushes it copies it to its shadow */
  float ready_us[HISTORY], forward_us[HISTORY]; /* of the last steps whose times are complete */
  double norm; /* of its last sum */
};

/* The factors of a step, and the rate of its update. */
struct scale {
  float before, after, rate;
};

/* One of two steps: one is pushed while the other is sent. */
struct step {
  int nwaited; /* tensors */
  struct scale scale;
  int overflow;
  uint64_t copied;
};

/* The sleep of the engine. */
struct sleep {
  int is_asleep;
  uint64_t bytes; /* pushed meanwhile */
};

/* times.c */
struct times {
  uint64_t first_push_ns, last_wait_ns; /* of the last step begun */
  uint64_t wait_sum_ns;                 /* time spent in waits in that step */
  uint64_t timed, recorded;             /* the last step whose times were taken; the last whose times are complete */
  float backward_us[HISTORY], iterations_us[HISTORY];
  double iteration_us, exposed_us;
};

/* Addresses; end 0: not known. */
struct range {
  uintptr_t begin, end;
};

/* ranges.c */
struct ranges {
  struct range *sums;    /* of each tensor: the place where its sum was last written */
  struct range *inputs;   /* likewise: the place of its contribution, if that was elsewhere */
  int32_t *by_address;   /* tensors with a known sum */
  int32_t nsums, ninputs; /* numbers of known ones */
};

struct interval {
  uint64_t begin_ns, end_ns;
};

/* The plan in use, as users see it. The engine alone writes this, and therefore reads it without the mutex. */
struct planned {
  const struct plan *plan;   /* the engine holds it */
  uint64_t plans, step;      /* number of plans used so far; first step with this one */
  int is_measured;           /* 1: the plan was made from measured times, or is good by them */
  double bound_us;           /* then: no plan takes less time by the newest times; else -1 */
  struct tt_played expected; /* the play of this plan by the newest times */
  struct interval *sent;     /* of each message, in the last step; end 0: not yet */
};

/* A wish of a caller, who waits for the engine to fulfil it between two steps. */
struct asked {
  const struct tt_codec *codec; /* from the next step on; NULL: nobody wants another one */
  tuttiResult_t answer;
};

struct shared {
  pthread_mutex_t mutex;
  pthread_cond_t wake, done;  /* of the engine; of waiting users */
  struct gradient *gradients; /* of all tensors */
  uint64_t step;              /* the last one begun; 0: none */
  int npushed;                /* tensors in it */
  uint64_t ended;             /* the last step that was waited for as a whole */
  uint64_t finished;          /* the last step whose sums are all there: the engine is in the next one */
  int ndone;                  /* tensors of the next one whose sums are there */
  int32_t *missing;           /* of each group: tensors that are not ready in it */
  int32_t *complete;          /* groups that lack none, and the engine was not told yet */
  int32_t ncomplete;
  uint64_t pushes;            /* counts what the engine has to look at */
  int nstreams;               /* tensors that wait for their stream */
  int all_waiters;            /* who waits for all tensors */
  int is_stopping;            /* 1: the engine is to end; 2: it has */
  struct asked asked;
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

/* The numbers from which plans are made. */
struct known {
  struct tt_tensor *facts; /* of the tensors of model */
  struct tt_model model;
  struct tt_message_cost cost;
  double free;              /* of cost */
  double ratios[TT_SIZE_CLASSES];   /* of each size class: measured / priced; 0: not known */
  double known_us[TT_SIZE_CLASSES]; /* priced time of the messages measured for it; older ones count less */
};

/* A tensor in this step. */
struct tensor_progress {
  int32_t parts_left;      /* not yet back */
  struct tt_norm norm;     /* of the parts that are back */
  uint64_t added;          /* elements in it */
  const void *last_send;   /* where it was when it was last copied or sent; NULL: never */
  void *last_recv;
};

enum message_state { TO_SEND, UNDER_WAY, CAME, OVER };

/* A message in this step. */
struct message_progress {
  enum message_state state;
  int has_room;     /* bytes of the ring at `at`; is_spare: instead its channel's spare room */
  int is_spare;
  size_t at;
  int parts_in, parts_before; /* copied already; those from here on were, since it has room */
  struct tt_op *op;
  int channel, overflow;
  uint64_t begin_ns;
  float took_us[HISTORY]; /* in the last steps */
};

/* Room beside the ring, for the next message of a channel, if those that have the ring's wait for late ranks. */
struct spare {
  char *memory;
  size_t bytes;
  int32_t message; /* that had it last; -1: none in this step */
};

/* Messages that were given room in the fusion buffer, the oldest first. */
struct ring {
  int32_t *messages; /* as many places as the plan has messages */
  int32_t first, n;
  int32_t next;      /* position: to be given room */
  int32_t forced;    /* message that needs room before others are given any; -1: none does */
  struct spare spares[CHANNELS + 1]; /* of each channel */
};

/* The copy under way, one at a time: of a part into the buffer, or out of it and into the norm. */
struct copying {
  const struct part *in;    /* NULL: none */
  int32_t message;          /* its */
  const struct part *out;   /* NULL: none */
  size_t done, added;       /* bytes: copied; in the norm */
};

/* The progress of users when the engine looked last. */
struct seen {
  struct scale scale; /* of the engine's step, then */
  uint64_t pushes;
  int nstreams;
  int is_asked;       /* for another codec */
};

/* The choice of the next message (rounds.c). */
struct ordering {
  struct tt_sequence order;
  struct tt_fusion_round round;
  int32_t *urgency;  /* of the groups of the plan in use: as tt_sequence_plan numbers them */
  int32_t *messages; /* of the plan: those that have elements, which are the sequence's; behind them the empty ones,
                        which are not sent, because no rank would wait in them for the others */
  int32_t nempty;
  int32_t *groups;   /* of the sequence's messages */
  uint64_t *bytes;
  uint64_t *frame;   /* room for one */
  uint64_t waits_ns; /* a rank waits for others if its messages have not moved for so long */
};

struct engine {
  uint64_t step;         /* that it is at */
  uint64_t agree_step;   /* at whose end ranks agree */
  uint64_t agreements;
  struct known known;
  struct plan *used;     /* the plan */
  struct tt_trial trial; /* auto's */
  struct plan *kept, *beaten; /* used before the trial; used before the plan that stays */
  struct tensor_progress *tensors;
  struct message_progress *messages; /* of the plan in use */
  uint8_t *is_in;                    /* of its parts: copied into the buffer in this step */
  struct ordering ordering;
  int32_t *begun;        /* messages as they were begun in this step */
  int32_t nbegun, back;  /* of these; those before `back` are over */
  int32_t out;           /* message that is coming out; -1: none */
  int out_part;          /* of it */
  struct ring ring;
  struct copying copying;
  uint64_t looks, looked; /* counts what may let something be copied in; when there was nothing */
  uint64_t copied;       /* bytes, in this step */
  struct tt_lacks lacks; /* as it is shown */
  struct seen seen;
  struct tt_waiter waiter;
};

/* ---- coding: the engine's, too ---- */

/* A coded tensor. */
struct tensor_code {
  struct tt_codec codec;
  float *planes[2][TT_CODEC_PLANES];  /* by stage: as the last step has left them, */
  float *changed[2][TT_CODEC_PLANES]; /* and as this step does */
  uint64_t prepared;                  /* the last step whose facts are here */
  struct tt_codec_facts facts;
  uint32_t wanted, wants;             /* as tt_codec_capacity takes it: in this step, in the next one */
};

/* The state of an updated tensor, of the elements that this rank owns, in their places of the tensor. */
struct masters {
  float *planes[UPDATE_PLANES], *changed[UPDATE_PLANES]; /* NULL: there are fewer */
  int is_given; /* weights were; guarded by the mutex */
};

struct coding {
  struct tt_codec codec;       /* row NULL: none */
  struct tensor_code *tensors; /* of all; those that are not coded have no planes */
  struct masters *owned;         /* likewise, if weights are updated; else NULL */
  uint64_t step;  /* the last one that left planes, which are those of it or of one before; guarded by the mutex */
  struct past past;
  float after;                 /* planes are in units of results before that factor */
  struct tt_coded_part *parts; /* room for those of one message */
  int nparts;
  float *scaled;               /* room for a tensor */
  uint64_t nscaled;
};

struct served; /* served_private.h */

struct tuttiFusion {
  uint32_t magic;
  struct config config;
  struct shared shared;
  struct engine engine;
  struct coding coding;
  struct shadows shadows;
  struct served *served; /* NULL: no server */
  pthread_t thread; /* the engine's */
  int has_thread;
};

/* ---- plan.c ---- */

/* Makes a plan, which the caller holds, by this policy and these numbers. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_plans_make(struct plan **plan, const struct config *config, const struct tt_policy *policy,
                                   const struct known *known);

/* Makes *holder hold this plan in place of the one that it held; either may be NULL. A plan without a holder is
 * freed. */
void tt_fusion_plans_hold(struct plan **holder, struct plan *plan);

/* ---- plans.c: the choice of the plan in use ---- */

/* Makes the first plan: only sizes are known. */
tuttiResult_t tt_fusion_plans_first(struct tuttiFusion *fusion);

/* Makes a plan by the policy and the numbers known now, and uses it in place of the present plan if it is another one.
 * Auto tries it if it promises something, and returns to the plan that was better (trial_private.h). iteration_us is
 * the time of an iteration by the present plan on which ranks have agreed, 0: not known. For the engine, between
 * steps. */
tuttiResult_t tt_fusion_plans_renew(struct tuttiFusion *fusion, double iteration_us);

/* Makes a plan anew, because the tensors have another codec: in place of all plans so far. Between steps. */
tuttiResult_t tt_fusion_plans_again(struct tuttiFusion *fusion);

/* Releases all plans. */
void tt_fusion_plans_free(struct tuttiFusion *fusion);

/* Counts anew the tensors that are missing of each group in the engine's step. Under the mutex. */
void tt_fusion_missing_count(const struct config *config, struct shared *shared);

/* ---- rounds.c: the order of messages ---- */

/* For all plans. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_rounds_make(struct tuttiFusion *fusion);
void tt_fusion_rounds_free(struct engine *engine);

/* For this plan, from the next step on. Errors: likewise. */
tuttiResult_t tt_fusion_order_plan(struct engine *engine, const struct config *config, const struct plan *plan);

/* Takes over the newest costs: what hides a round, and for how long a message may rest on the links. Whenever a plan is
 * used, or stays in use. */
void tt_fusion_order_price(struct engine *engine);

/* The plan's message at this position of the sequence. */
static inline int32_t tt_fusion_order_at(const struct ordering *ordering, int32_t position)
{
  return ordering->messages[ordering->order.sequence[position]];
}

/* Groups whose tensors were all pushed since the last time: their empty messages are there. Under the mutex. */
void tt_fusion_order_look(struct engine *engine, struct shared *shared);

/* Sends and takes frames, and begins and ends rounds. is_idle: nothing else moves; looks: for a millisecond by now. 1:
 * something moved. */
int tt_fusion_order_move(struct tuttiFusion *fusion, int is_idle, int looks, tuttiResult_t *result);

/* No round is under way, and no other rank waits for frames. */
int tt_fusion_order_rests(const struct tuttiFusion *fusion);

/* ---- times.c ---- */

/* Under the mutex: completes the times of the step, if they were not complete before; begins another step, with a
 * push. */
void tt_fusion_times_take(const struct config *config, struct shared *shared, uint64_t now_ns);
void tt_fusion_step_begins(const struct config *config, struct shared *shared, uint64_t now_ns);

/* Measures some rows of messages, before the first plan. */
tuttiResult_t tt_fusion_probe(const struct config *config, struct known *known);

/* For the engine, at the end of agree_step, with no message under way: agrees with all ranks on the measured times, and
 * makes a plan from them if that is better. Takes as long as the slowest rank. */
tuttiResult_t tt_fusion_agree(struct tuttiFusion *fusion);

/* ---- create.c ---- */

/* Reports this rank's own result to the ranks that wait for it on any of the channels, which end if it is an error.
 * Returns the result that counts on all ranks. */
tuttiResult_t tt_fusion_told(const struct config *config, tuttiResult_t result);

/* Ends all channels, on all ranks, with the calling thread's last sentence. */
void tt_fusion_end(const struct config *config, tuttiResult_t result);

/* ---- compare.c ---- */

/* Errors: tuttiInvalidUsage, on all ranks: two of them have different options or tensors. */
tuttiResult_t tt_fusion_compare(struct config *config);

/* ---- ranges.c: under the mutex ---- */

/* Checks that the tensor's buffers may be used: no sum may be written to the place of another tensor's sum or
 * contribution that was not waited for yet. */
tuttiResult_t tt_fusion_range_check(const struct config *config, struct shared *shared, int tensor,
                                    const struct tt_pushed *pushed);

/* Takes the buffers into use, after the check. */
void tt_fusion_range_take(const struct config *config, struct shared *shared, int tensor,
                          const struct tt_pushed *pushed);

/* ---- copies.c: the fusion buffer ---- */

/* One piece of copying, the most urgent there is. 1: something was done. */
int tt_fusion_copy(struct tuttiFusion *fusion);

/* Finds the places from which the message, the next one of its channel, is sent and to which it is received. 0: it is
 * not all there yet. */
int tt_fusion_place(struct tuttiFusion *fusion, const struct tt_sequence_begin *what, const void **in, void **out);

/* Gives a message for which there was no place the spare room of its channel. The message is known to be ready on all
 * ranks, or other ranks have begun it; those after it wait for it here. So it must not wait for the room of other
 * messages: they may wait for a rank that waits for one of these. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_spare(struct tuttiFusion *fusion, const struct tt_sequence_begin *what);

void tt_fusion_spares_forget(struct ring *ring); /* no message has spare room */
void tt_fusion_spares_free(struct ring *ring);

/* Says that a tensor is there. */
void tt_fusion_tensor_finish(struct tuttiFusion *fusion, int tensor);

/* ---- coded.c: tensors that travel as codes ---- */

/* Reads the codec's text (NULL or "none": there is none), and checks it for the tensors, which config has; as text. */
tuttiResult_t tt_fusion_codec_read(const struct config *config, const char *text, struct tt_codec *codec);
const char *tt_fusion_codec_text(const struct tt_codec *codec, char text[TT_CODEC_TEXT_BYTES]);

/* Codes tensors with this codec from the next step on. Planes stay if the codec keeps its row, else they are zeros.
 * Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_coding_set(struct tuttiFusion *fusion, const struct tt_codec *codec);
void tt_fusion_coding_free(struct tuttiFusion *fusion);

/* Begins a coded message on a channel. NULL: no memory. */
struct tt_op *tt_fusion_coded_begin(struct tuttiFusion *fusion, int32_t m, int channel);

/* Ends the step: planes are as it has left them, or, if it overflowed and that is reported, as they were. */
void tt_fusion_coding_step(struct tuttiFusion *fusion, int overflowed);

/* Answers the caller who wants another codec, if one does and no step is under way. 1: it did. Errors: of the
 * channel. */
int tt_fusion_codec_look(struct tuttiFusion *fusion, tuttiResult_t *result);

/* The unit and the turn of the owners of a tensor's elements (comm/coded.h). */
uint64_t tt_fusion_owned_unit(const struct config *config, const struct tensor_code *code, const struct tensor *tensor);

/* Sends all weights once more, as the step before has left them: between messages, on all ranks. */
tuttiResult_t tt_fusion_weights_again(struct tuttiFusion *fusion);

/* ---- update.c: owners update weights ---- */

/* Reads the options, and checks them for the tensors, which config has. */
tuttiResult_t tt_fusion_rule_read(struct config *config, const tuttiFusionConfig_t *asked);

/* As text, the same for equal rules; "none". */
const char *tt_fusion_rule_text(const struct rule *rule, char text[RULE_BYTES]);

/* Makes the planes of all tensors. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_owned_make(struct tuttiFusion *fusion);
void tt_fusion_owned_free(struct tuttiFusion *fusion);

/* Another rank may own an element from now on than by `unit` and `turn`: all ranks give each other what they own of a
 * tensor. Errors: tuttiSystemError; of the channel. */
tuttiResult_t tt_fusion_owned_move(struct tuttiFusion *fusion, int tensor, uint64_t unit, uint32_t turn);

/* The update of a message in the engine's step. */
struct tt_coded_update tt_fusion_update(const struct tuttiFusion *fusion, int type);

/* Elements of a tensor that a rank owns: units, in turn. */
struct tt_fusion_share {
  int rank;
  uint32_t turn;
  uint64_t unit, count; /* count: of the tensor */
};

struct tt_fusion_share tt_fusion_share(const struct tuttiFusion *fusion, int tensor, int rank);

/* Goes to the next elements of the share, from *first on. Returns how many they are; 0: there are none. */
uint64_t tt_fusion_share_next(const struct config *config, const struct tt_fusion_share *share, uint64_t *first);

/* LARS: the trust in a tensor's gradient, by the squares of the norms of that and of the weights, of all elements. */
float tt_fusion_lambda(const struct rule *rule, const double squares[2]);

/* Updates elements of this rank. lambda: 1 without LARS. Errors: of config.function. */
tuttiResult_t tt_fusion_rule_apply(const struct tuttiFusion *fusion, const tuttiFusionShard_t *shard, float lambda);

/* Copies what this rank owns of a plane between it and the caller's data, of which the rest becomes zeros. */
void tt_fusion_owned_copy(struct tuttiFusion *fusion, const struct tt_fusion_state *state);

/* All tensors of a step are given at once, when it has ended: only then is it known that weights stay. */
static inline int tt_fusion_gives_last(const struct config *config)
{
  return config->rule.planes && config->reports;
}

/* ---- engine.c ---- */

void *tt_fusion_main(void *fusion);

/* Looks at the changes that users have made. 0: the engine has to end. */
int tt_fusion_users_look(struct tuttiFusion *fusion, tuttiResult_t *result);

/* Waits for the end: after a failure there is nothing else to do. */
void tt_fusion_stop_await(struct shared *shared);

/* All sums of the engine's step are there: the next one begins. */
void tt_fusion_step_end(struct tuttiFusion *fusion);

/* Starts the engine's step: nothing of it was done yet. */
void tt_fusion_step_start(struct tuttiFusion *fusion);

/* Notes that a pushed tensor is there. Under the mutex. */
void tt_fusion_ready(struct tuttiFusion *fusion, int tensor);

/* Waits until signalled or for `ns`, less than a second. The mutex is held, except during the wait. */
void tt_fusion_idle(struct shared *shared, pthread_cond_t *until_told, uint64_t ns);

/* Runs a collective of the fusion's own on channel 0, which has nothing under way, in place: rank r's share of an
 * all-gather is the r-th `count` elements of data. */
tuttiResult_t tt_fusion_run(const struct config *config, int collective, void *data, size_t count, int type,
                            int redop);

/* Before the engine exists: sends `messages` sums of `bytes` bytes of the buffer, which has room for one on each
 * channel, each begun when the engine would begin it with a credit of 0, or, is_full, as soon as a channel is free. */
tuttiResult_t tt_fusion_row(const struct config *config, size_t bytes, int messages, int is_full);

/* Ends everything, with the calling thread's last sentence. */
void tt_fusion_fail(struct tuttiFusion *fusion, tuttiResult_t result);

#endif
