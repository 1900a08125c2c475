/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded reductions: sums of tensors of fp32 whose contributions and results travel as codes (codec/codec.h).
 *
 * A coded reduction is one operation of a communicator, of several acts, each of which is a collective of bytes with a
 * number of its own:
 *
 *   facts     where the codec prepares: an all-gather of a float for each part, of which each takes the greatest
 *   exchange  by the owner's route: an all-to-all of the codes of contributions, by their owners
 *   norms     of an update with norms: an all-gather of two squares of norms for each part
 *   gather    an all-gather of the codes of results, or by the other route of contributions
 *
 * An *update* is one in which the owner of an element updates weights by the sum, and gives these as the result, in
 * fp32, fp16 or bf16. Contributions travel by a codec of the owner's route, or without one in a type of floats; then
 * the owner adds them by the tree of all-reduces with `deterministic`, so that its sum has their bits.
 *
 * Its tensors come in parts. Elements of a tensor have owners by *units* of a fixed length, counted from the tensor's
 * beginning, in turn: the owner depends on the tensor alone, not on parts and messages, and each rank owns nearly as
 * much as any other. Shares that differ much in length travel by counts: those of results by an all-gather, those of
 * contributions as messages between pairs, if the caller numbers its reductions; others as long as the longest one, and
 * then the rest has no meaning.
 *
 * All ranks get the bits that one process gets which encodes, adds and decodes the same tensors by codec.h. */
#ifndef TT_COMM_CODED_H
#define TT_COMM_CODED_H

#include "codec/codec.h"
#include "comm/comm.h"
#include "reduce/norm.h"

struct tt_coded_part {
  struct tt_codec codec; /* the spec's row; checked for the tensor */
  const void *in;        /* elements of the part: the contribution, multiplied by `before` first; */
  void *out;             /* and the result. The same memory as `in`, or apart. Floats, of an update those of its type */
  uint64_t first, count; /* first is a multiple of the grain; count too, or up to the end. Route gather: all */
  uint64_t whole;        /* elements of the tensor */
  uint32_t tensor;       /* its number, on which random numbers depend */
  uint32_t turn;         /* the owner of its first unit, modulo the number of ranks */
  const struct tt_codec_facts *facts; /* of the scaled tensor on this rank; NULL: the part is all of it, and they are
                                         found here */
  const float *planes[2][TT_CODEC_PLANES]; /* by stage, of the part's elements: as they are before, */
  float *changed[2][TT_CODEC_PLANES];      /* and after it, in other memory; of results on the element's owner alone */
  double planes_factor;  /* 0: none; planes are multiplied by it first, but stay finite */
  uint32_t wanted;       /* as tt_codec_capacity takes it */
  uint32_t *wants;       /* becomes the same for the next step, on all ranks alike; NULL: not of interest */
  const float *weights;  /* of an update: those of the part's elements, as they are, of which this rank's count; */
  float *updated;        /* in other memory, as they become */
};

/* Elements of a part of which the owner, this rank, updates the weights. */
struct tt_coded_shard {
  const struct tt_coded_part *part;
  uint64_t first, count;    /* first counts from the tensor's beginning */
  const float *gradient;    /* the sum, of an average divided, times `after` */
  float *weights;           /* to be updated */
  const double *squares;    /* with norms: the squares of those of the part's gradient and weights, of all ranks */
};

struct tt_coded_update {
  int restores;  /* 1: nothing is contributed, and weights are given as they are */
  int has_norms; /* squares are added by each owner, in fp64, in a lane for element numbers modulo 16, then the lanes;
                    and those of owners in the order of ranks */
  int type;      /* of elements in memory: fp32; without a codec also fp16, bf16 */
  int wires[2];  /* in which contributions travel and are combined, without a codec; and weights. fp32, fp16, bf16, and
                    if `type` is no fp32, that */
  float rate;    /* for the sentence of a mismatch */
  tuttiResult_t (*turn)(void *context, const struct tt_coded_shard *shard); /* errors end the communicator */
  void *context;
};

struct tt_coded_spec {
  struct tt_codec codec; /* row NULL: an update without one */
  const struct tt_coded_part *parts; /* copied */
  int nparts;
  int redop;             /* tuttiSum or tuttiAvg */
  float before, after;   /* results are multiplied by `after`, of an average divided by the number of ranks: one fp32
                            factor. The same `after` on all ranks */
  uint32_t step;         /* 0: numbered by the coded reductions of the communicator, from 1 on; else the communicator
                            has no messages between pairs of ranks of its users */
  int *overflow;         /* becomes 1 if an element of the result is infinite or NaN, else 0; NULL: no report. The sum
                            of an update counts, too: then `updated` has no meaning */
  const struct tt_coded_update *update; /* copied; NULL: results are sums */
};

/* Runs it now, after the operations that are queued. Buffers are host memory. Errors: as tt_comm_run; tuttiRemoteError:
 * a rank sent a damaged code. */
tuttiResult_t tt_comm_run_coded(struct tuttiComm *comm, const struct tt_coded_spec *spec);

/* Puts it into the thread's open group, or else into the stream. */
tuttiResult_t tt_comm_queue_coded(struct tuttiComm *comm, struct tuttiStream *stream,
                                  const struct tt_coded_spec *spec);

/* As tt_op_begin. */
struct tt_op *tt_op_begin_coded(struct tuttiComm *comm, const struct tt_coded_spec *spec);

/* ---- contributions and weights that travel otherwise, with the bits that they have in a coded reduction ---- */

/* How contributions travel without a codec. */
struct tt_coded_plain {
  int redop, nranks; /* as of a spec */
  float before;
  int type, memory;  /* in which they travel; of the elements: the same, or fp32 */
};

void tt_coded_plain_write(const struct tt_coded_plain *plain, const void *from, uint64_t count, void *to);

/* Converts floats; to and from the same type, or one of the two is fp32. */
void tt_coded_convert(int to_type, void *to, int from_type, const void *from, uint64_t count);

/* Encodes elements of a part, with its planes. piece->rank is this rank. */
void tt_coded_encode(const struct tt_coded_part *part, const struct tt_codec_piece *piece, const float *values,
                     void *code);

/* Adds a code that came. Errors: tuttiRemoteError: it is damaged. */
tuttiResult_t tt_coded_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const void *code,
                                  uint64_t bytes, float *sum);

/* Multiplies, each product rounded to nearest. to and from may be the same. */
void tt_coded_multiply(float *to, const float *from, uint64_t count, float factor);

/* Contributions that are added by the one tree of all-reduces with `deterministic` (algos/binary_blocks.c). */
struct tt_coded_tree {
  void *(*at)(const struct tt_coded_tree *tree, int k); /* the k-th contribution, which may be changed */
  int n, type;
  uint64_t count; /* elements */
};

/* Adds them: the sum takes the place of contribution 0. */
void tt_coded_tree_add(const struct tt_coded_tree *tree);

/* Elements of a unit of a tensor of so many; a multiple of the grain. Route gather: all. */
uint64_t tt_coded_unit(const struct tt_codec *codec, uint64_t whole, int nranks);

/* The owner of an element. */
static inline int tt_coded_owner(const struct tt_coded_part *part, uint64_t unit, uint64_t element, int nranks)
{
  return (int)((element / unit + part->turn) % (uint64_t)nranks);
}

#endif
