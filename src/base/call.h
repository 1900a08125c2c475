/* SPDX-License-Identifier: BSD-3-Clause */
/* The description of a call: the part of a collective call that must match across ranks.
 * It is published for other ranks to compare, and travels in TCP headers. */
#ifndef TT_BASE_CALL_H
#define TT_BASE_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/collectives.h"

/* Inside the library a reduction is a tuttiRedOp_t below tuttiNumOps, or this one: the pre-multiplied sum, whose scalar
 * the communicator keeps. */
#define TT_PREMUL_SUM tuttiNumOps
#define TT_REDOPS (tuttiNumOps + 1)

/* 32 bytes, the same layout in memory and on the wire (little endian). */
struct tt_call {
  uint64_t op;        /* 1, 2, ...: number of the call on its communicator; 0: none yet */
  uint64_t count;     /* elements */
  uint8_t collective; /* enum tt_collective */
  uint8_t type;       /* tuttiDataType_t */
  uint8_t redop;      /* below TT_REDOPS */
  uint8_t algo;       /* index into tt_algos; chosen from the rest, so it matches if they do */
  int32_t root;       /* -1 where the collective has none */
  uint64_t form;      /* how it is carried out, see below; 0: nothing special */
};

/* Bits of form. */
#define TT_FORM_SPLIT 1u         /* the all-gather that a split begins with */
#define TT_FORM_REPORT 2u        /* ranks tell each other of infinities and NaN */
#define TT_FORM_SENDS 4u         /* of TT_PAIRS, not on the wire: the message goes to rank root */
#define TT_FORM_RECVS 8u         /* likewise: the message comes from rank root */
#define TT_FORM_LONE 16u         /* likewise: the operation has messages of this direction only that are not over */
#define TT_FORM_CHUNK 0x20000000u /* likewise: the message is cut, for slots of CUDA streams */
#define TT_FORM_BARRIER 32u      /* the all-reduce of one byte that a barrier is */
#define TT_FORM_GROW (TT_FORM_SPLIT | TT_FORM_BARRIER) /* the all-gather that a grow begins with */
#define TT_FORM_CODED 64u        /* one act of a coded reduction: bytes move; root is the number of elements */
#define TT_FORM_LAST 128u        /* likewise: the act that ends it */
#define TT_FORM_WIRE_SHIFT 8     /* 8 bits: 1 + type in which elements are combined and travel; 0: call->type */
#define TT_FORM_CODEC_SHIFT 16   /* 8 bits, of a coded reduction: the codec's number in base/codecs.def */
#define TT_FORM_COUNTS 0x1000000u /* with counts for each rank; of TT_PAIRS: the message is one of an all-to-all */
#define TT_FORM_LEARN 0x2000000u  /* the all-reduce by which ranks tell each other what calls take (tt_call_before) */
#define TT_FORM_UPDATE 0x4000000u /* of a coded reduction: owners update weights. The codec may be TT_NO_CODEC; the
                                     parameters are the factor of results, in the last act the rate */
#define TT_FORM_FLOATS_SHIFT 27   /* 2 bits, likewise: the type of contributions, in the last act of weights: 0 fp32,
                                     1 fp16, 2 bf16 */
#define TT_FORM_AFTER_SHIFT 32   /* 32 bits: fp32 factor of the results at the end; 0: none. TT_FORM_COUNTS: a hash of
                                    the counts instead; count is then their average, rounded up. TT_FORM_LEARN: the
                                    call behind, and root is its count */
#define TT_FORM_DETAIL_SHIFT 32  /* likewise, of coded reductions: the parameters, in the last act the factor */

#define TT_NO_CODEC 255

/* How the parameters of a codec lie in those 32 bits (codecs.def). */
enum tt_codec_detail { TT_DETAIL_NONE, TT_DETAIL_ONE, TT_DETAIL_TWO, TT_DETAIL_REAL, TT_DETAIL_HASH };
#define TT_DETAIL_TWO_SHIFT 25 /* the first one's place; the second is below */
enum tt_codec_detail tt_detail_kind(int codec);

/* The type of elements in messages and scratch. */
static inline int tt_call_wire_type(const struct tt_call *call)
{
  int wire = (int)(call->form >> TT_FORM_WIRE_SHIFT & 0xff);
  return wire ? wire - 1 : call->type;
}

/* The factor of the results at the end; 1: none. */
float tt_call_after(const struct tt_call *call);

/* The form of an act of a coded reduction. */
static inline uint64_t tt_coded_form(int codec, uint32_t detail, int is_last)
{
  return TT_FORM_CODED | (is_last ? TT_FORM_LAST : 0) | (uint64_t)codec << TT_FORM_CODEC_SHIFT |
         (uint64_t)detail << TT_FORM_DETAIL_SHIFT;
}

/* The same of an update. */
uint64_t tt_update_form(int codec, uint32_t detail, int is_last, int type);

/* The form of a reduction of `type` that travels as `wire` if `type` is fp32, whose results are multiplied by `after`,
 * and that reports overflow or not. */
uint64_t tt_call_form(int type, int wire, float after, int reports);

/* Notes in an exchange of the learner, which has TT_FORM_LEARN, the call that waits behind it: so a rank that makes
 * another call finds out already there, and both are named. */
void tt_call_before(struct tt_call *exchange, const struct tt_call *behind);

/* The form of a call with these counts: TT_FORM_COUNTS, and their hash. */
uint64_t tt_call_form_counts(const size_t *counts, int nranks);

/* The word before every message: the low 32 bits of op in its upper half, a hash of everything else in its lower half.
 * Equal calls give equal words. Never 0. Bit TT_WORD_OVERFLOW is 0: a message may set it, to say that its sender has
 * seen an infinity or NaN; comparisons of words leave it out. */
uint64_t tt_call_word(const struct tt_call *call);
#define TT_WORD_OVERFLOW ((uint64_t)2)
static inline int tt_word_matches(uint64_t a, uint64_t b) { return !((a ^ b) & ~TT_WORD_OVERFLOW); }

/* The history of a rank's calls on a communicator is 0 before the first one. The words of messages are mixed with the
 * history of the calls before. So ranks whose earlier calls differed, even if one of them had nothing to send, notice
 * it at the next message between them. */
static inline uint64_t tt_history_add(uint64_t history, uint64_t word)
{
  return (history ^ (word & ~TT_WORD_OVERFLOW)) * 0x9e3779b97f4a7c15u;
}
static inline uint64_t tt_word_after(uint64_t word, uint64_t history)
{
  return word ^ (history >> 32 & 0xfffffffcu); /* bits 0 and 1 stay */
}
static inline uint32_t tt_word_op(uint64_t word) { return (uint32_t)(word >> 32); }

/* Writes "AllReduce #12 (count 1024, float, sum)" into text, with the contents of the form if it has any: "AllReduce
 * #12 (count 1024, float as half, sum, overflow report, scale_after 0.5)"; returns text. */
const char *tt_call_text(const struct tt_call *call, char *text, size_t size);
#define TT_CALL_TEXT_BYTES 128

const char *tt_call_name(const struct tt_call *call); /* "AllReduce" .. */
const char *tt_type_name(int type);   /* "int8" .. as in nccl-tests; "?" if unknown */
const char *tt_redop_name(int redop); /* "sum" ..; "?" if unknown */
size_t tt_type_size(int type);        /* bytes of an element; 0 if unknown */
int tt_type_is_float(int type);       /* of 8 to 64 bits, or a pair of such: complex */
int tt_type_part(int type);           /* of complex types that of the parts; else the type itself */

/* NULL if elements of the type can be combined so, else what it takes instead; redop is below TT_REDOPS, type a type.
 * Inside the library TT_PREMUL_SUM of complex numbers has a real factor. */
const char *tt_redop_lacks(int redop, int type);

#endif
