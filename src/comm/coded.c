/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded reductions: acts of work on this rank, and acts in which bytes move, in turn. The thread that moves the
 * communicator does the work, in pieces, so that it can look at other communicators in between. */
#include "comm/coded_private.h"

#include <stdio.h>
#include <string.h>

#include "reduce/fpenv.h"
#include "reduce/reduce.h"

#define UNIT_ELEMENTS 2048   /* of a unit, at most so many, or a grain */
#define PIECE_ELEMENTS 16384 /* worked on between two looks */

/* ---- places ---- */

uint64_t tt_coded_unit(const struct tt_codec *codec, uint64_t whole, int nranks)
{
  uint64_t grain = codec->row ? tt_codec_grain(codec) : 1, ranks = (uint64_t)nranks;
  if (!grain) return whole ? whole : 1;
  uint64_t grains = (whole + grain - 1) / grain, most = UNIT_ELEMENTS / grain;
  if (!most) most = 1;
  uint64_t rounds = (grains + ranks * most - 1) / (ranks * most);
  return rounds ? (grains + ranks * rounds - 1) / (ranks * rounds) * grain : grain;
}

static int is_gathered(const struct tt_coded *coded)
{
  return !coded->spec.update && tt_codec_route(&coded->spec.codec) == TT_CODEC_GATHER;
}

static int prepares(const struct tt_coded *coded)
{
  return coded->spec.codec.row && tt_codec_prepares(&coded->spec.codec);
}

static void places_rewind(struct tt_coded *coded)
{
  coded->part = 0;
  coded->next = coded->own = 0;
  memset(coded->used[0], 0, 2 * (size_t)coded->nranks * sizeof *coded->used[0]);
}

static uint64_t place_bytes(const struct tt_coded *coded, const struct tt_coded_place *place, enum tt_codec_stage stage)
{
  struct tt_codec_piece piece = place->piece;
  struct tt_coded_laid *laid = place->laid;
  if (stage == TT_CODEC_RESULT && is_gathered(coded)) return 0;
  if (coded->spec.update && (stage == TT_CODEC_RESULT || !laid->part.codec.row))
    return piece.count * tt_type_size(coded->update.wires[stage]);
  if (piece.count == laid->unit && laid->unit_bytes[stage]) return laid->unit_bytes[stage];
  piece.stage = stage;
  uint64_t bytes = tt_codec_bytes(&laid->part.codec, &piece);
  if (piece.count == laid->unit) laid->unit_bytes[stage] = bytes;
  return bytes;
}

/* Goes to the next place. 0: there is none. */
static int place_next(struct tt_coded *coded, struct tt_coded_place *place)
{
  while (coded->part < coded->spec.nparts && coded->next == coded->laid[coded->part].part.count) {
    coded->part++;
    coded->next = 0;
  }
  if (coded->part == coded->spec.nparts) return 0;
  struct tt_coded_laid *laid = &coded->laid[coded->part];
  const struct tt_coded_part *part = &laid->part;
  uint64_t first = part->first + coded->next, left = part->count - coded->next;
  uint64_t in_unit = laid->unit - first % laid->unit;
  *place = (struct tt_coded_place){.laid = laid, .skip = coded->next, .own = coded->own};
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
  if (place->owner == coded->rank) coded->own += place->piece.count;
  return 1;
}

/* How long shares are as they travel. They travel by counts if that saves an eighth of their bytes, else all as long as
 * the longest one. By the route gather all are equal. */
static void shares_set(struct tt_coded *coded, int stage)
{
  const uint64_t *used = coded->used[stage];
  uint64_t longest = 0, all = 0, ranks = (uint64_t)coded->nranks;
  for (uint64_t rank = 0; rank < ranks; rank++) {
    all += used[rank];
    if (used[rank] > longest) longest = used[rank];
  }
  coded->is_even[stage] = is_gathered(coded) || all >= longest * ranks - longest * ranks / 8 ||
                          (stage == TT_CODEC_CONTRIBUTION && !coded->has_pairs);
  coded->total[stage] = 0;
  for (uint64_t rank = 0; rank < ranks; rank++) {
    coded->counts[stage][rank] = coded->is_even[stage] ? longest : used[rank];
    coded->starts[stage][rank] = coded->total[stage];
    coded->total[stage] += coded->counts[stage][rank];
  }
}

/* Goes to the end of all places. */
static void shares_find(struct tt_coded *coded)
{
  struct tt_coded_place place;
  places_rewind(coded);
  coded->longest = 1;
  while (place_next(coded, &place))
    if (place.piece.count > coded->longest) coded->longest = place.piece.count;
  for (int stage = 0; stage < 2; stage++) shares_set(coded, stage);
  coded->owned = coded->own;
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
  tt_free(codes->sums.memory);
  *codes = (struct tt_codes){.sent = {.bytes = 0}};
}

size_t tt_codes_held(const struct tt_codes *codes)
{
  return codes->sent.bytes + codes->received.bytes + codes->values.bytes + codes->sums.bytes;
}

static tuttiResult_t rooms_make(const struct tt_coded *coded, struct tt_codes *codes)
{
  size_t most = coded->total[0] > coded->total[1] ? coded->total[0] : coded->total[1];
  tuttiResult_t result = room_ensure(&codes->sent, most);
  if (result == tuttiSuccess && !is_gathered(coded))
    result = room_ensure(&codes->received, (size_t)coded->nranks * coded->counts[0][coded->rank]);
  if (result == tuttiSuccess && coded->spec.update)
    result = room_ensure(&codes->sums, coded->owned * sizeof(float));
  int adds = !is_gathered(coded) && !coded->spec.update; /* in `values` */
  if (result == tuttiSuccess && (adds || coded->spec.before != 1))
    result = room_ensure(&codes->values, coded->longest * sizeof(float));
  return result;
}

/* ---- work ---- */

/* The contribution of the elements: where it lies, or scaled in `values`. */
static const float *contribution(const struct tt_coded *coded, const struct tt_coded_place *place, float *values)
{
  const float *in = (const float *)place->laid->part.in + place->skip;
  if (coded->spec.before == 1) return in;
  tt_coded_multiply(values, in, place->piece.count, coded->spec.before);
  return values;
}

static void plain_write(const struct tt_coded *coded, const struct tt_coded_place *place, uint8_t *to)
{
  const struct tt_coded_plain plain = {coded->spec.redop, coded->nranks, coded->spec.before,
                                       coded->update.wires[TT_CODEC_CONTRIBUTION], coded->update.type};
  const char *in = place->laid->part.in;
  tt_coded_plain_write(&plain, in + place->skip * tt_type_size(plain.memory), place->piece.count, to);
}

static void place_encode(struct tt_coded *coded, const struct tt_coded_place *place, const struct tt_codes *codes)
{
  int share = is_gathered(coded) ? coded->rank : place->owner;
  uint8_t *code = (uint8_t *)codes->sent.memory + coded->starts[0][share] + place->at[0];
  if (place->laid->part.codec.row)
    tt_coded_encode(&place->laid->part, &place->piece, contribution(coded, place, codes->values.memory), code);
  else plain_write(coded, place, code);
}

static tuttiResult_t gathered_decode(struct tt_coded *coded, const struct tt_coded_place *place,
                                     const struct tt_codes *codes, float *out)
{
  tuttiResult_t result = tuttiSuccess;
  uint32_t most = 0;
  for (int rank = 0; rank < coded->nranks && result == tuttiSuccess; rank++) {
    const uint8_t *code = (const uint8_t *)codes->sent.memory + coded->starts[0][rank] + place->at[0];
    result = tt_coded_place_add(place, TT_CODEC_CONTRIBUTION, rank, code, out);
    if (place->bytes[0] && tt_codec_wanted(code) > most) most = tt_codec_wanted(code);
  }
  if (place->laid->part.wants) *place->laid->part.wants = most;
  return result;
}

static tuttiResult_t place_decode(struct tt_coded *coded, const struct tt_coded_place *place,
                                  const struct tt_codes *codes)
{
  float *out = (float *)place->laid->part.out + place->skip;
  int ranks = coded->spec.redop == tuttiAvg ? coded->nranks : 1;
  float factor = (float)((double)coded->spec.after / ranks);
  const uint8_t *code = (const uint8_t *)codes->sent.memory + coded->starts[1][place->owner] + place->at[1];
  if (coded->spec.update) {
    tt_coded_weights_read(coded, place, code);
    return tuttiSuccess;
  }
  memset(out, 0, place->piece.count * sizeof *out);
  tuttiResult_t result = is_gathered(coded) ? gathered_decode(coded, place, codes, out)
                                            : tt_coded_place_add(place, TT_CODEC_RESULT, place->owner, code, out);
  if (factor != 1) tt_coded_multiply(out, out, place->piece.count, factor);
  if (coded->spec.overflow && !tt_reduce_table()->finite[tuttiFloat32](out, place->piece.count)) coded->overflow = 1;
  return result;
}

/* Works on some places. tuttiInProgress: there are more. */
static tuttiResult_t places_work(struct tt_coded *coded, const struct tt_codes *codes)
{
  struct tt_coded_place place;
  tuttiResult_t result = tuttiSuccess;
  for (uint64_t done = 0; done < PIECE_ELEMENTS && result == tuttiSuccess; done += place.piece.count) {
    if (!place_next(coded, &place)) return tuttiSuccess;
    if (coded->act == ENCODE) place_encode(coded, &place, codes);
    else if (coded->act == SUM) result = tt_coded_place_sum(coded, &place, codes);
    else if (coded->act == TURN) result = tt_coded_place_turn(coded, &place, codes);
    else result = place_decode(coded, &place, codes);
  }
  return result == tuttiSuccess ? tuttiInProgress : result;
}

/* ---- facts ---- */

/* Finds the facts about the next part. tuttiInProgress: there are more. */
static tuttiResult_t part_prepare(struct tt_coded *coded, struct tt_codes *codes)
{
  if (coded->part == coded->spec.nparts || !prepares(coded)) return tuttiSuccess;
  struct tt_coded_laid *laid = &coded->laid[coded->part];
  const struct tt_coded_part *part = &laid->part;
  const float *values = part->in;
  if (part->facts) laid->facts = *part->facts;
  if (!part->facts && coded->spec.before != 1) {
    tuttiResult_t result = room_ensure(&codes->values, part->count * sizeof *values);
    if (result != tuttiSuccess) return result;
    tt_coded_multiply(codes->values.memory, values, part->count, coded->spec.before);
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

static tuttiResult_t norms_tell(const struct tt_coded *coded, struct tt_codes *codes)
{
  size_t n = 2 * (size_t)coded->spec.nparts;
  tuttiResult_t result = room_ensure(&codes->sent, (size_t)coded->nranks * n * sizeof(double));
  if (result == tuttiSuccess) tt_coded_norms_tell(coded, (double *)codes->sent.memory + (size_t)coded->rank * n);
  return result;
}

/* ---- acts ---- */

static uint32_t elements_of(const struct tt_coded *coded)
{
  uint64_t count = 0;
  for (int i = 0; i < coded->spec.nparts; i++) count += coded->laid[i].part.count;
  return count < TT_CODEC_MOST_ELEMENTS ? (uint32_t)count : TT_CODEC_MOST_ELEMENTS;
}

static uint32_t bits_of_float(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

/* Parameters that must be the same on all ranks, each in the act that its errors are found in. */
static uint64_t act_form(const struct tt_coded *coded)
{
  const struct tt_coded_spec *spec = &coded->spec;
  int is_last = coded->act == GATHER;
  int codec = spec->codec.row ? tt_codec_number(&spec->codec) : TT_NO_CODEC;
  uint32_t after = spec->after == 1 ? 0 : bits_of_float(spec->after);
  if (spec->update)
    return tt_update_form(codec, is_last ? bits_of_float(coded->update.rate) : after, is_last,
                          coded->update.wires[is_last]);
  return tt_coded_form(codec, is_last ? after : tt_codec_detail(&spec->codec), is_last);
}

/* The call of an act in which all ranks send `bytes` bytes, on average. */
static struct tt_call act_call(const struct tt_coded *coded, uint64_t bytes)
{
  return (struct tt_call){.count = bytes,
                          .collective = coded->act == EXCHANGE ? TT_ALL_TO_ALL : TT_ALL_GATHER,
                          .type = tuttiUint8,
                          .redop = (uint8_t)coded->spec.redop,
                          .root = (int32_t)elements_of(coded),
                          .form = act_form(coded)};
}

/* Facts and norms of each rank: an all-gather in place. */
static void told_bind(const struct tt_coded *coded, const struct tt_codes *codes, struct tt_binding *binding)
{
  size_t n = (size_t)coded->spec.nparts, bytes = coded->act == FACTS ? n * sizeof(float) : 2 * n * sizeof(double);
  binding->call = act_call(coded, bytes);
  binding->out = codes->sent.memory;
  binding->in = (char *)binding->out + (size_t)coded->rank * bytes;
}

/* Codes that all ranks get. */
static void gather_bind(const struct tt_coded *coded, const struct tt_codes *codes, struct tt_shares *shares,
                        struct tt_binding *binding)
{
  int stage = is_gathered(coded) ? TT_CODEC_CONTRIBUTION : TT_CODEC_RESULT;
  size_t ranks = (size_t)coded->nranks, total = coded->total[stage];
  binding->call = act_call(coded, total / ranks + (total % ranks != 0));
  binding->out = codes->sent.memory;
  binding->in = (char *)binding->out + coded->starts[stage][coded->rank];
  *shares = (struct tt_shares){coded->counts[stage], coded->starts[stage]};
  if (!coded->is_even[stage]) binding->shares = shares;
  if (!coded->is_even[stage] && !coded->counts[stage][coded->rank]) binding->in = NULL;
}

/* Unequal shares go as messages between pairs of ranks. Errors: tuttiSystemError: no memory. */
static tuttiResult_t exchange_bind(struct tt_op *op, const struct tt_codes *codes)
{
  struct tt_coded *coded = op->coded;
  size_t ranks = (size_t)coded->nranks, own = coded->counts[0][coded->rank];
  op->binding.call = act_call(coded, own);
  op->binding.in = codes->sent.memory;
  op->binding.out = codes->received.memory;
  if (coded->is_even[0]) return tuttiSuccess;
  int room = 2 * coded->nranks;
  size_t *from = tt_alloc(2 * ranks, sizeof *from);
  if (op->transfer_room < room) {
    tt_free(op->binding.transfers);
    op->binding.transfers = tt_alloc((size_t)room, sizeof *op->binding.transfers);
    op->transfer_room = op->binding.transfers ? room : 0;
  }
  if (!from || !op->binding.transfers) {
    tt_free(from);
    return tt_fail(tuttiSystemError, "out of memory for %d messages of a coded reduction", room);
  }
  for (size_t rank = 0; rank < ranks; rank++) {
    from[rank] = own;
    from[ranks + rank] = rank * own;
  }
  const struct tt_exchange exchange = {.in = op->binding.in,
                                       .out = op->binding.out,
                                       .ins = {coded->counts[0], coded->starts[0]},
                                       .outs = {from, from + ranks},
                                       .element = 1};
  tt_exchange_write(op->binding.transfers, &exchange, coded->nranks, coded->rank);
  for (int k = 0; k < room; k++) op->binding.transfers[k].form |= op->binding.call.form;
  op->binding.ntransfers = room;
  op->binding.call = (struct tt_call){.collective = TT_PAIRS, .root = -1};
  tt_free(from);
  return tuttiSuccess;
}

/* Makes the operation the collective that the act is. It keeps the room that it has for messages. */
static tuttiResult_t act_bind(struct tt_op *op, const struct tt_codes *codes)
{
  struct tt_coded *coded = op->coded;
  op->binding = (struct tt_binding){.before = 1, .transfers = op->binding.transfers};
  if (coded->act == EXCHANGE) return exchange_bind(op, codes);
  if (coded->act == GATHER) gather_bind(coded, codes, &coded->shares, &op->binding);
  else told_bind(coded, codes, &op->binding);
  return tuttiSuccess;
}

/* Begins or goes on with an act in which bytes move. */
static tuttiResult_t bytes_move(struct tt_op *op, int *moved)
{
  struct tt_coded *coded = op->coded;
  struct tuttiComm *comm = op->comm;
  tuttiResult_t result = tuttiSuccess;
  if (!coded->is_moving) {
    if (coded->act == FACTS) result = facts_tell(coded, &comm->calls.codes);
    if (coded->act == NORMS) result = norms_tell(coded, &comm->calls.codes);
    if (result == tuttiSuccess) result = act_bind(op, &comm->calls.codes);
    if (result != tuttiSuccess) return tt_comm_give_up(comm, result, op->binding.call.op);
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
  if (coded->act == NORMS) tt_coded_norms_take(coded, comm->calls.codes.sent.memory);
  coded->is_moving = 0;
  return result;
}

/* Lays out the codes, once all facts are known. */
static tuttiResult_t codes_lay(struct tt_coded *coded, struct tt_codes *codes)
{
  for (int i = 0; i < coded->spec.nparts; i++) {
    struct tt_coded_laid *laid = &coded->laid[i];
    laid->unit = tt_coded_unit(&laid->part.codec, laid->part.whole, coded->nranks);
    if (laid->part.codec.row)
      laid->capacity = tt_codec_capacity(&laid->part.codec, laid->part.whole, laid->part.wanted);
  }
  shares_find(coded);
  return rooms_make(coded, codes);
}

static int is_moving_act(enum tt_coded_act act)
{
  return act == FACTS || act == EXCHANGE || act == NORMS || act == GATHER;
}

static tuttiResult_t act_move(struct tt_op *op, int *moved)
{
  struct tt_coded *coded = op->coded;
  struct tt_codes *codes = &op->comm->calls.codes;
  if (is_moving_act(coded->act)) return bytes_move(op, moved);
  *moved = 1;
  tuttiResult_t result = coded->act == PREPARE ? part_prepare(coded, codes)
                         : coded->act == LAY   ? codes_lay(coded, codes)
                                               : places_work(coded, codes);
  if (result == tuttiSuccess || result == tuttiInProgress) return result;
  return tt_comm_give_up(op->comm, result, op->binding.call.op);
}

static enum tt_coded_act act_after(const struct tt_coded *coded)
{
  const struct tt_coded_update *update = &coded->update;
  if (coded->act == PREPARE && !prepares(coded)) return LAY;
  if (coded->act == LAY && update->restores) return TURN;
  if (coded->act == ENCODE && is_gathered(coded)) return GATHER;
  if (coded->act == EXCHANGE && !coded->spec.update) return TURN;
  if (coded->act == SUM && !update->has_norms) return TURN;
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
  struct tt_coded *coded = tt_alloc(1, sizeof *coded + n * sizeof *coded->laid + 2 * ranks * sizeof *coded->used[0] +
                                           4 * ranks * sizeof *coded->counts[0]);
  tt_watch_unnumbered(comm->parts.watch);
  op->owned = op->coded = coded;
  if (!coded) {
    tt_op_give(op);
    return NULL;
  }
  coded->spec = *spec;
  coded->spec.parts = NULL;
  coded->has_pairs = spec->step != 0;
  if (spec->update) coded->spec.update = &coded->update;
  if (spec->update) coded->update = *spec->update;
  coded->nranks = comm->facts.nranks;
  coded->rank = comm->facts.rank;
  coded->laid = (struct tt_coded_laid *)(coded + 1);
  coded->used[0] = (uint64_t *)(coded->laid + n);
  coded->used[1] = coded->used[0] + ranks;
  coded->counts[0] = (size_t *)(coded->used[1] + ranks);
  coded->counts[1] = coded->counts[0] + ranks;
  coded->starts[0] = coded->counts[1] + ranks;
  coded->starts[1] = coded->starts[0] + ranks;
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
