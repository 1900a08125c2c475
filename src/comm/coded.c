/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded reductions: acts of work on this rank, and acts in which bytes move, in turn. The thread that moves the
 * communicator does the work, in pieces, so that it can look at other communicators in between. */
#include "comm/coded.h"

#include <stdio.h>
#include <string.h>

#include "comm/private.h"
#include "reduce/fpenv.h"
#include "reduce/reduce.h"

#define UNIT_ELEMENTS 2048  /* of a unit, at most so many, or a grain */
#define PIECE_ELEMENTS 16384 /* worked on between two looks */

enum act { PREPARE, FACTS, LAY, ENCODE, EXCHANGE, TURN, GATHER, DECODE, OVER };

/* A part and what follows from it. */
struct laid {
  struct tt_coded_part part;
  struct tt_codec_facts facts;
  uint64_t unit;
  uint64_t unit_bytes[2]; /* code of a whole unit, by stage */
  uint32_t capacity;
};

/* Elements of one part that have one owner, and the places of their codes in the owner's shares, by stage. */
struct place {
  struct laid *laid;
  struct tt_codec_piece piece;
  uint64_t skip; /* elements of the part before them */
  int owner;
  uint64_t at[2], bytes[2];
};

struct tt_coded {
  struct tt_coded_spec spec;
  enum act act;
  int is_moving; /* 1: the act was started on the run */
  int nranks, rank, overflow;
  int part;      /* the next place: in this part, */
  uint64_t next; /* behind so many elements of it */
  uint64_t share[2]; /* bytes of a rank's share, by stage */
  uint64_t *used[2]; /* by stage and owner: bytes of its share before the next place */
  uint64_t longest;  /* elements of a place, at most */
  struct laid *laid;
};

/* ---- places ---- */

uint64_t tt_coded_unit(const struct tt_codec *codec, uint64_t whole, int nranks)
{
  uint64_t grain = tt_codec_grain(codec), ranks = (uint64_t)nranks;
  if (!grain) return whole ? whole : 1;
  uint64_t grains = (whole + grain - 1) / grain, most = UNIT_ELEMENTS / grain;
  if (!most) most = 1;
  uint64_t rounds = (grains + ranks * most - 1) / (ranks * most);
  return rounds ? (grains + ranks * rounds - 1) / (ranks * rounds) * grain : grain;
}

static int is_gathered(const struct tt_coded *coded)
{
  return tt_codec_route(&coded->spec.codec) == TT_CODEC_GATHER;
}

static void places_rewind(struct tt_coded *coded)
{
  coded->part = 0;
  coded->next = 0;
  memset(coded->used[0], 0, 2 * (size_t)coded->nranks * sizeof *coded->used[0]);
}

static uint64_t place_bytes(const struct tt_coded *coded, const struct place *place, enum tt_codec_stage stage)
{
  struct tt_codec_piece piece = place->piece;
  struct laid *laid = place->laid;
  if (stage == TT_CODEC_RESULT && is_gathered(coded)) return 0;
  if (piece.count == laid->unit && laid->unit_bytes[stage]) return laid->unit_bytes[stage];
  piece.stage = stage;
  uint64_t bytes = tt_codec_bytes(&laid->part.codec, &piece);
  if (piece.count == laid->unit) laid->unit_bytes[stage] = bytes;
  return bytes;
}

/* Goes to the next place. 0: there is none. */
static int place_next(struct tt_coded *coded, struct place *place)
{
  while (coded->part < coded->spec.nparts && coded->next == coded->laid[coded->part].part.count) {
    coded->part++;
    coded->next = 0;
  }
  if (coded->part == coded->spec.nparts) return 0;
  struct laid *laid = &coded->laid[coded->part];
  const struct tt_coded_part *part = &laid->part;
  uint64_t first = part->first + coded->next, left = part->count - coded->next;
  uint64_t in_unit = laid->unit - first % laid->unit;
  *place = (struct place){.laid = laid, .skip = coded->next};
  place->owner = is_gathered(coded) ? 0 : tt_coded_owner(part, laid->unit, first, coded->nranks);
  place->piece = (struct tt_codec_piece){.nranks = coded->nranks,
                                         .rank = (uint32_t)coded->rank,
                                         .tensor = part->tensor,
                                         .step = coded->spec.step,
                                         .first = first,
                                         .count = left < in_unit ? left : in_unit,
                                         .capacity = laid->capacity,
                                         .facts = laid->facts};
  for (int stage = 0; stage < 2; stage++) {
    place->bytes[stage] = place_bytes(coded, place, (enum tt_codec_stage)stage);
    place->at[stage] = coded->used[stage][place->owner];
    coded->used[stage][place->owner] += place->bytes[stage];
  }
  coded->next += place->piece.count;
  return 1;
}

/* Goes to the end of all places: the shares are as long as the longest. */
static void shares_find(struct tt_coded *coded)
{
  struct place place;
  places_rewind(coded);
  coded->longest = 1;
  while (place_next(coded, &place))
    if (place.piece.count > coded->longest) coded->longest = place.piece.count;
  for (int stage = 0; stage < 2; stage++) {
    coded->share[stage] = 0;
    for (int rank = 0; rank < coded->nranks; rank++)
      if (coded->used[stage][rank] > coded->share[stage]) coded->share[stage] = coded->used[stage][rank];
  }
  places_rewind(coded);
}

/* ---- memory ---- */

/* Memory of the communicator that its coded reductions use one after the other. */
static tuttiResult_t room_ensure(struct tt_room *room, size_t bytes)
{
  if (room->bytes >= bytes && room->memory) return tuttiSuccess;
  tt_free(room->memory);
  *room = (struct tt_room){.memory = tt_alloc(1, bytes ? bytes : 1), .bytes = bytes};
  if (room->memory) return tuttiSuccess;
  room->bytes = 0;
  return tt_fail(tuttiSystemError, "out of memory: %zu bytes for the codes of a reduction", bytes);
}

void tt_codes_free(struct tt_codes *codes)
{
  tt_free(codes->sent.memory);
  tt_free(codes->received.memory);
  tt_free(codes->values.memory);
  *codes = (struct tt_codes){.sent = {.bytes = 0}};
}

size_t tt_codes_held(const struct tt_codes *codes)
{
  return codes->sent.bytes + codes->received.bytes + codes->values.bytes;
}

static tuttiResult_t rooms_make(const struct tt_coded *coded, struct tt_codes *codes)
{
  uint64_t ranks = (uint64_t)coded->nranks, longer = coded->share[0];
  if (coded->share[1] > longer) longer = coded->share[1];
  tuttiResult_t result = room_ensure(&codes->sent, ranks * longer);
  if (result == tuttiSuccess && !is_gathered(coded)) result = room_ensure(&codes->received, ranks * coded->share[0]);
  if (result == tuttiSuccess) result = room_ensure(&codes->values, coded->longest * sizeof(float));
  return result;
}

/* ---- work ---- */

static void multiply(float *to, const float *from, uint64_t count, float factor)
{
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < count; i++) to[i] = from[i] * factor;
  fpenv_leave(env);
}

/* The contribution of the elements: where it lies, or scaled in `values`. */
static const float *contribution(const struct tt_coded *coded, const struct place *place, float *values)
{
  const float *in = place->laid->part.in + place->skip;
  if (coded->spec.before == 1) return in;
  multiply(values, in, place->piece.count, coded->spec.before);
  return values;
}

/* Encodes in one of the stages. */
static void encode(const struct place *place, enum tt_codec_stage stage, const float *values, uint8_t *code)
{
  const struct tt_coded_part *part = &place->laid->part;
  struct tt_codec_piece piece = place->piece;
  float *planes[TT_CODEC_PLANES] = {NULL, NULL};
  piece.stage = stage;
  for (int p = 0; p < tt_codec_planes(&part->codec, stage); p++) {
    planes[p] = part->changed[stage][p] + place->skip;
    memcpy(planes[p], part->planes[stage][p] + place->skip, piece.count * sizeof(float));
  }
  tt_codec_encode(&part->codec, &piece, values, planes, code);
}

static tuttiResult_t decode_add(const struct place *place, enum tt_codec_stage stage, int rank, const uint8_t *code,
                                float *sum)
{
  struct tt_codec_piece piece = place->piece;
  piece.stage = stage;
  piece.rank = (uint32_t)rank;
  tuttiResult_t result = tt_codec_decode_add(&place->laid->part.codec, &piece, code, place->bytes[stage], sum);
  if (result == tuttiSuccess) return result;
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  return tt_fail_quiet(tuttiRemoteError, sentence);
}

static void place_encode(struct tt_coded *coded, const struct place *place, const struct tt_codes *codes)
{
  int share = is_gathered(coded) ? coded->rank : place->owner;
  uint8_t *code = (uint8_t *)codes->sent.memory + (uint64_t)share * coded->share[0] + place->at[0];
  encode(place, TT_CODEC_CONTRIBUTION, contribution(coded, place, codes->values.memory), code);
}

/* The owner's part: contributions are added in the order of ranks, and their sum is encoded. */
static tuttiResult_t place_turn(struct tt_coded *coded, const struct place *place, const struct tt_codes *codes)
{
  float *sum = codes->values.memory;
  tuttiResult_t result = tuttiSuccess;
  if (place->owner != coded->rank) return result;
  memset(sum, 0, place->piece.count * sizeof *sum);
  for (int rank = 0; rank < coded->nranks && result == tuttiSuccess; rank++) {
    const uint8_t *code = (const uint8_t *)codes->received.memory + (uint64_t)rank * coded->share[0] + place->at[0];
    result = decode_add(place, TT_CODEC_CONTRIBUTION, rank, code, sum);
  }
  if (result != tuttiSuccess) return result;
  uint8_t *to = (uint8_t *)codes->sent.memory + (uint64_t)coded->rank * coded->share[1] + place->at[1];
  encode(place, TT_CODEC_RESULT, sum, to);
  return result;
}

static tuttiResult_t gathered_decode(struct tt_coded *coded, const struct place *place, const struct tt_codes *codes,
                                     float *out)
{
  tuttiResult_t result = tuttiSuccess;
  uint32_t most = 0;
  for (int rank = 0; rank < coded->nranks && result == tuttiSuccess; rank++) {
    const uint8_t *code = (const uint8_t *)codes->sent.memory + (uint64_t)rank * coded->share[0] + place->at[0];
    result = decode_add(place, TT_CODEC_CONTRIBUTION, rank, code, out);
    if (place->bytes[0] && tt_codec_wanted(code) > most) most = tt_codec_wanted(code);
  }
  if (place->laid->part.wants) *place->laid->part.wants = most;
  return result;
}

static tuttiResult_t place_decode(struct tt_coded *coded, const struct place *place, const struct tt_codes *codes)
{
  float *out = place->laid->part.out + place->skip;
  int ranks = coded->spec.redop == tuttiAvg ? coded->nranks : 1;
  float factor = (float)((double)coded->spec.after / ranks);
  const uint8_t *code =
      (const uint8_t *)codes->sent.memory + (uint64_t)place->owner * coded->share[1] + place->at[1];
  memset(out, 0, place->piece.count * sizeof *out);
  tuttiResult_t result = is_gathered(coded) ? gathered_decode(coded, place, codes, out)
                                            : decode_add(place, TT_CODEC_RESULT, place->owner, code, out);
  if (factor != 1) multiply(out, out, place->piece.count, factor);
  if (coded->spec.overflow && !tt_reduce_table()->finite[tuttiFloat32](out, place->piece.count)) coded->overflow = 1;
  return result;
}

/* Works on some places. tuttiInProgress: there are more. */
static tuttiResult_t places_work(struct tt_coded *coded, const struct tt_codes *codes)
{
  struct place place;
  tuttiResult_t result = tuttiSuccess;
  for (uint64_t done = 0; done < PIECE_ELEMENTS && result == tuttiSuccess; done += place.piece.count) {
    if (!place_next(coded, &place)) return tuttiSuccess;
    if (coded->act == ENCODE) place_encode(coded, &place, codes);
    else if (coded->act == TURN) result = place_turn(coded, &place, codes);
    else result = place_decode(coded, &place, codes);
  }
  return result == tuttiSuccess ? tuttiInProgress : result;
}

/* ---- facts ---- */

/* Finds the facts about the next part. tuttiInProgress: there are more. */
static tuttiResult_t part_prepare(struct tt_coded *coded, struct tt_codes *codes)
{
  if (coded->part == coded->spec.nparts || !tt_codec_prepares(&coded->spec.codec)) return tuttiSuccess;
  struct laid *laid = &coded->laid[coded->part];
  const struct tt_coded_part *part = &laid->part;
  const float *values = part->in;
  if (part->facts) laid->facts = *part->facts;
  if (!part->facts && coded->spec.before != 1) {
    tuttiResult_t result = room_ensure(&codes->values, part->count * sizeof *values);
    if (result != tuttiSuccess) return result;
    multiply(codes->values.memory, values, part->count, coded->spec.before);
    values = codes->values.memory;
  }
  if (!part->facts) tt_codec_prepare(&part->codec, values, part->count, &laid->facts);
  coded->part++;
  return tuttiInProgress;
}

static tuttiResult_t facts_tell(const struct tt_coded *coded, struct tt_codes *codes)
{
  size_t n = (size_t)coded->spec.nparts;
  tuttiResult_t result = room_ensure(&codes->sent, (size_t)coded->nranks * n * sizeof(float));
  if (result != tuttiSuccess) return result;
  float *told = (float *)codes->sent.memory + (size_t)coded->rank * n;
  for (size_t i = 0; i < n; i++) told[i] = coded->laid[i].facts.shared;
  return result;
}

static void facts_take(struct tt_coded *coded, const struct tt_codes *codes)
{
  size_t n = (size_t)coded->spec.nparts;
  const float *told = codes->sent.memory;
  for (size_t k = 0; k < (size_t)coded->nranks * n; k++)
    if (!(told[k] <= coded->laid[k % n].facts.shared)) coded->laid[k % n].facts.shared = told[k];
}

/* ---- acts ---- */

static uint32_t elements_of(const struct tt_coded *coded)
{
  uint64_t count = 0;
  for (int i = 0; i < coded->spec.nparts; i++) count += coded->laid[i].part.count;
  return count < TT_CODEC_MOST_ELEMENTS ? (uint32_t)count : TT_CODEC_MOST_ELEMENTS;
}

/* The collective that the act is. */
static void act_bind(const struct tt_coded *coded, const struct tt_codes *codes, struct tt_binding *binding)
{
  const struct tt_coded_spec *spec = &coded->spec;
  enum act act = coded->act;
  uint64_t bytes = act == FACTS ? (uint64_t)spec->nparts * sizeof(float)
                                : coded->share[act == GATHER && !is_gathered(coded)];
  uint32_t detail = tt_codec_detail(&spec->codec);
  if (act == GATHER) memcpy(&detail, &spec->after, sizeof detail);
  if (act == GATHER && spec->after == 1) detail = 0;
  char *sent = codes->sent.memory;
  *binding = (struct tt_binding){.in = act == EXCHANGE ? sent : sent + (uint64_t)coded->rank * bytes,
                                 .out = act == EXCHANGE ? (char *)codes->received.memory : sent,
                                 .before = 1};
  binding->call = (struct tt_call){.count = bytes,
                                   .collective = act == EXCHANGE ? TT_ALL_TO_ALL : TT_ALL_GATHER,
                                   .type = tuttiUint8,
                                   .redop = (uint8_t)spec->redop,
                                   .root = (int32_t)elements_of(coded),
                                   .form = tt_coded_form(tt_codec_number(&spec->codec), detail, act == GATHER)};
}

/* Begins or goes on with an act in which bytes move. */
static tuttiResult_t bytes_move(struct tt_op *op, int *moved)
{
  struct tt_coded *coded = op->coded;
  struct tuttiComm *comm = op->comm;
  tuttiResult_t result = tuttiSuccess;
  if (!coded->is_moving) {
    if (coded->act == FACTS) result = facts_tell(coded, &comm->calls.codes);
    if (result != tuttiSuccess) return tt_comm_give_up(comm, result, op->binding.call.op);
    act_bind(coded, &comm->calls.codes, &op->binding);
    if (comm->calls.is_observed) tt_observe_begin(comm, &op->binding.call);
    result = tt_op_start(op);
    if (result != tuttiSuccess) return result;
    coded->is_moving = op->started = 1;
    *moved = 1;
  }
  result = tt_run_poll(comm->parts.run, moved);
  if (result != tuttiSuccess) return result;
  if (comm->calls.is_observed) tt_observe_end(comm, &op->binding, result);
  if (coded->act == FACTS) facts_take(coded, &comm->calls.codes);
  coded->is_moving = 0;
  return result;
}

/* Lays out the codes, once all facts are known. */
static tuttiResult_t codes_lay(struct tt_coded *coded, struct tt_codes *codes)
{
  for (int i = 0; i < coded->spec.nparts; i++) {
    struct laid *laid = &coded->laid[i];
    laid->unit = tt_coded_unit(&laid->part.codec, laid->part.whole, coded->nranks);
    laid->capacity = tt_codec_capacity(&laid->part.codec, laid->part.whole, laid->part.wanted);
  }
  shares_find(coded);
  return rooms_make(coded, codes);
}

static tuttiResult_t act_move(struct tt_op *op, int *moved)
{
  struct tt_coded *coded = op->coded;
  struct tt_codes *codes = &op->comm->calls.codes;
  if (coded->act == FACTS || coded->act == EXCHANGE || coded->act == GATHER) return bytes_move(op, moved);
  *moved = 1;
  tuttiResult_t result = coded->act == PREPARE ? part_prepare(coded, codes)
                         : coded->act == LAY   ? codes_lay(coded, codes)
                                               : places_work(coded, codes);
  if (result == tuttiSuccess || result == tuttiInProgress) return result;
  return tt_comm_give_up(op->comm, result, op->binding.call.op);
}

static enum act act_after(const struct tt_coded *coded)
{
  if (coded->act == PREPARE && !tt_codec_prepares(&coded->spec.codec)) return LAY;
  if (coded->act == ENCODE && is_gathered(coded)) return GATHER;
  return coded->act + 1;
}

tuttiResult_t tt_coded_move(struct tt_op *op, int *moved)
{
  struct tt_coded *coded = op->coded;
  tuttiResult_t result = tt_comm_health(op->comm);
  if (!coded->spec.step) coded->spec.step = ++op->comm->calls.ncoded;
  if (result == tuttiSuccess) result = act_move(op, moved);
  if (result != tuttiSuccess) return result;
  coded->act = act_after(coded);
  if (coded->act == OVER) {
    if (coded->spec.overflow) *coded->spec.overflow = coded->overflow;
    return tuttiSuccess;
  }
  places_rewind(coded);
  return tuttiInProgress;
}

/* ---- operations ---- */

/* One piece of memory has all that the operation needs, and is freed with it. */
static struct tt_op *op_make(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_coded_spec *spec)
{
  const struct tt_binding none = {.call = {.root = -1}, .before = 1};
  size_t ranks = (size_t)comm->facts.nranks, n = (size_t)spec->nparts;
  struct tt_op *op = tt_op_take(comm, stream, &none);
  if (!op) return NULL;
  struct tt_coded *coded = tt_alloc(1, sizeof *coded + n * sizeof *coded->laid + 2 * ranks * sizeof *coded->used[0]);
  op->owned = op->coded = coded;
  if (!coded) {
    tt_op_give(op);
    return NULL;
  }
  coded->spec = *spec;
  coded->spec.parts = NULL;
  coded->nranks = comm->facts.nranks;
  coded->rank = comm->facts.rank;
  coded->laid = (struct laid *)(coded + 1);
  coded->used[0] = (uint64_t *)(coded->laid + n);
  coded->used[1] = coded->used[0] + ranks;
  for (size_t i = 0; i < n; i++) coded->laid[i].part = spec->parts[i];
  return op;
}

static tuttiResult_t out_of_memory(struct tuttiComm *comm)
{
  return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for a coded reduction"), 0);
}

static tuttiResult_t queue_inside(struct tuttiComm *comm, struct tuttiStream *stream,
                                  const struct tt_coded_spec *spec)
{
  tuttiResult_t result = tt_comm_health(comm);
  if (result != tuttiSuccess) return result;
  struct tt_op *op = op_make(comm, stream, spec);
  if (!op) return out_of_memory(comm);
  if (tt_group_active()) return tt_group_add_op(op);
  tt_ops_submit(op);
  return tuttiSuccess;
}

tuttiResult_t tt_comm_queue_coded(struct tuttiComm *comm, struct tuttiStream *stream,
                                  const struct tt_coded_spec *spec)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = queue_inside(comm, stream, spec);
  tt_comm_exit(comm);
  return result;
}

tuttiResult_t tt_comm_run_coded(struct tuttiComm *comm, const struct tt_coded_spec *spec)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  struct tt_op *op = tt_op_begin_coded(comm, spec);
  tuttiResult_t result = op ? tt_op_await(op) : out_of_memory(comm);
  tt_comm_exit(comm);
  return result;
}

struct tt_op *tt_op_begin_coded(struct tuttiComm *comm, const struct tt_coded_spec *spec)
{
  struct tt_op *op = op_make(comm, NULL, spec);
  if (op) tt_ops_submit(op);
  return op;
}
