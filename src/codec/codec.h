/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs: tensors of fp32 that travel in fewer bits.
 *
 * A codec is a row of one table: its name and parameters, its route, the exact length of a code, the planes of state
 * it keeps, and how it prepares, encodes and decodes. A coded reduction runs by its route:
 *
 *   owner    Each rank encodes its contribution in shards, which travel to their owners (all-to-all of bytes). The
 *            owner of a shard adds what it decodes to zeros, in the order of ranks, encodes the sum once more, as the
 *            result, and all ranks decode the results of all owners (all-gather of bytes).
 *   gather   Each rank encodes its contribution, and all ranks get all contributions (all-gather of bytes) and add what
 *            they decode to zeros, in the order of ranks. Sparse codecs go this way.
 *
 * So nothing is rounded but once by its contributor and once by its owner, and what rounding leaves out can be kept, in
 * a plane: a tensor of fp32 beside the gradients that a rank, or the owner of a shard, holds from step to step and that
 * only encode changes. Planes begin as zeros. There is no other state.
 *
 * Bits. A code depends on the values, the planes and the fields of struct tt_codec_piece alone: not on the table of
 * kernels, the calling thread's floating-point environment, the machine, or how a tensor is cut. By the owner's route
 * a tensor may be cut before any element whose number is a multiple of the grain; by the other it is encoded whole, and
 * its code may be cut anywhere. Random numbers are a function of seed, tensor, step, rank, stage and the element's
 * number. Numbers in codes are little endian, as all machines are that the library runs on.
 *
 * Values that are not finite are never hidden, so that a scaled loss which overflows is found on all ranks as it is
 * without a codec: fp16 and bf16 keep them; else those of 2^127 or more count as infinite, a block with such a value is
 * decoded as NaN as a whole, and a sparse code has the first such values among its entries, as NaN. The plane keeps
 * there the value of the step before. A caller who takes such a step back restores a copy of the planes.
 *
 * Units. Planes are in those of the values; a caller who changes the scale of the loss multiplies planes by new / old.
 * Results are sums. An average is divided after the decoding of results, not in contributions. */
#ifndef TT_CODEC_H
#define TT_CODEC_H

#include "base/base.h"

#define TT_CODEC_PARAMETERS 3
#define TT_CODEC_PLANES 2
#define TT_CODEC_TEXT_BYTES 96
#define TT_CODEC_MOST_ELEMENTS 0x7fffffffu /* of a tensor */
#define TT_CODEC_MOST_RANKS 4096           /* up to here sums of ternary gradients are exact */

enum tt_codec_route { TT_CODEC_OWNER, TT_CODEC_GATHER };
enum tt_codec_stage { TT_CODEC_CONTRIBUTION, TT_CODEC_RESULT };

/* A row of the table with its parameters, in the order of the text. */
struct tt_codec {
  const struct tt_codec_row *row;
  double number[TT_CODEC_PARAMETERS];
};

/* The facts about a whole tensor that its elements are encoded by. */
struct tt_codec_facts {
  float shared; /* all ranks take the greatest (max all-reduce); infinite if a value is not finite */
  float own;    /* of this rank */
};

/* The elements that are encoded or decoded, and by whom. */
struct tt_codec_piece {
  enum tt_codec_stage stage;
  int32_t nranks;
  uint32_t rank; /* encoder's; random numbers of a result do not depend on it */
  uint32_t tensor, step;
  uint64_t seed;
  uint64_t first; /* number of the first element in its tensor: a multiple of the grain; by the route gather 0 */
  uint64_t count; /* elements: a multiple of the grain, or up to the end of the tensor; by the route gather all */
  uint32_t capacity; /* route gather: entries of a code, of tt_codec_capacity; the same on all ranks */
  struct tt_codec_facts facts; /* if the row has prepare */
};

/* 1: the text names no codec, so tensors travel as they are: it is NULL or "none". */
int tt_codec_is_none(const char *text);

/* Reads NAME[:NUMBER[,NUMBER...]]. Errors: tuttiInvalidArgument: there is no such codec, or a parameter is missing, no
 * number or out of range (the sentence names the row, the parameter, its value and the range); *codec is unchanged. */
tuttiResult_t tt_codec_parse(struct tt_codec *codec, const char *text);

/* The codec as text with all its parameters, which tt_codec_parse reads as the same codec; returns text. */
const char *tt_codec_text(const struct tt_codec *codec, char text[TT_CODEC_TEXT_BYTES]);

/* The codec's number in base/codecs.def, and its parameters as calls have them (base/call.h). */
int tt_codec_number(const struct tt_codec *codec);
uint32_t tt_codec_detail(const struct tt_codec *codec);

/* Errors: tuttiInvalidArgument: too many elements for a tensor, or too many ranks. */
tuttiResult_t tt_codec_check(const struct tt_codec *codec, uint64_t count, int nranks);

enum tt_codec_route tt_codec_route(const struct tt_codec *codec);
int tt_codec_planes(const struct tt_codec *codec, enum tt_codec_stage stage);
int tt_codec_prepares(const struct tt_codec *codec); /* 1: pieces need facts, whose `shared` all ranks combine */

/* Elements that are encoded together, at least 1; 0: the whole tensor (route gather). */
uint32_t tt_codec_grain(const struct tt_codec *codec);

/* Entries for which a code of the route gather has room. `wanted`: most entries that any rank's code of the step before
 * asked for (tt_codec_wanted), 0 in the first step. Rows that send a fixed share ignore it. */
uint32_t tt_codec_capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted);
uint32_t tt_codec_wanted(const void *code);

/* Length of the code of a piece: the stage, nranks, count and capacity decide. */
uint64_t tt_codec_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece);

/* Elements of a tensor that no cut parts: a grain, or by the route gather all. */
uint64_t tt_codec_unit(const struct tt_codec *codec, uint64_t count);

/* Bytes for which a unit of a tensor of so many elements counts beside tensors that are all-reduced as they are: an
 * all-reduce of so many bytes moves as many as the codes of all stages. */
uint64_t tt_codec_wire(const struct tt_codec *codec, uint64_t count, int nranks);

/* The same for `count` elements whose owners update weights: these travel in `weights` bytes each in place of results.
 * codec->row NULL: contributions travel in `element` bytes. */
uint64_t tt_codec_wire_update(const struct tt_codec *codec, uint64_t count, int nranks, size_t element,
                              size_t weights);

/* The following calls are for tensors and numbers of ranks that tt_codec_check has passed. */

/* The facts about a rank's whole tensor. */
void tt_codec_prepare(const struct tt_codec *codec, const float *values, uint64_t count, struct tt_codec_facts *facts);

/* Writes exactly tt_codec_bytes to code, of any alignment. values: the contribution, or in the second stage the sum;
 * planes[i]: plane i of the same elements, NULL where the stage has fewer. Nothing overlaps. Returns 1 if a value was
 * not finite. */
int tt_codec_encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                    float *const planes[TT_CODEC_PLANES], void *code);

/* Adds the values of a code to sum, piece->count elements. Nothing outside these is read or written, whatever the
 * bytes are. Errors: tuttiInvalidArgument: the bytes are none that encode writes; sum is then undefined. */
tuttiResult_t tt_codec_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const void *code,
                                  uint64_t bytes, float *sum);

/* The table, for tests and tools: rows by number, NULL behind the last one. */
const struct tt_codec_row *tt_codec_row(int number);
const char *tt_codec_name(const struct tt_codec_row *row);

#endif
