/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces with options. They tell how floats travel, multiply by factors for loss scaling, and report overflow.
 * tutti.h includes this header. */
#ifndef TUTTI_REDUCE_H
#define TUTTI_REDUCE_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Options of one all-reduce. Always start from TUTTI_REDUCE_OPTIONS_INITIALIZER; a field left as that sets it
 * takes its default. The struct is read before the call returns. */
typedef struct {
  size_t size;
  uint32_t magic;
  uint32_t version;
  int wire_type;      /* as in tuttiConfig_t; undefined: the communicator's. The same on all ranks */
  float scale_before; /* each contribution of this rank is multiplied by it; default 1. Ranks may differ */
  float scale_after;  /* each result is multiplied by it; default 1. The same on all ranks */
  int *overflow;      /* host memory, or NULL: no report; becomes 1 if an element on any rank was or became infinite or
                         NaN, else 0, on all ranks alike, when the result is there: it must live until then, as
                         recvbuff. The same on all ranks: NULL or not */
  const char *codec;  /* how contributions and results travel, see "Codecs" below; NULL or "none": as they are, or as
                         wire_type says. The same on all ranks */
} tuttiReduceOptions_t;

#define TUTTI_REDUCE_OPTIONS_MAGIC 0x74756f70u
#define TUTTI_REDUCE_OPTIONS_INITIALIZER \
  { sizeof(tuttiReduceOptions_t), TUTTI_REDUCE_OPTIONS_MAGIC, TUTTI_VERSION_CODE, TUTTI_CONFIG_UNDEF_INT, 1, 1, NULL, \
    NULL }

/* tuttiAllReduce with options; options NULL: none.
 *
 * Wire type. With type tuttiFloat32 and a wire type W of tuttiFloat16 or tuttiBfloat16 half the bytes travel. Each
 * contribution is multiplied (by scale_before, and by the factor of op) in fp32 and rounded to W; sums are made in fp32
 * and rounded to W once per step, that is at most once for each rank whose contribution is added; the result, a value
 * of W, is written as fp32 and then multiplied by scale_after in fp32. So all ranks get the same bits: those of an
 * all-reduce in W of contributions that were converted beforehand. Other types travel as they are.
 *
 * Error. Each element of a sum or average over n ranks, where nothing overflows and the factors of contributions are no
 * subnormal numbers, is, before scale_after, within
 *     (((1 + u) (1 + 2^-24))^n - 1) S  +  n ((1 + u) (1 + 2^-24))^n e,     about n u S,
 * of the exact one, where S is the sum of the magnitudes of the scaled contributions; u = 2^-11, e = 2^-25 for
 * tuttiFloat16 (which overflows from 65520 on, to infinity) and u = 2^-8, e = 2^-134 for tuttiBfloat16.
 *
 * Scales are for floats; with another type they must be 1. scale_before is for sums and averages: the product is
 * rounded to the type (or W). The one factor of an average is scale_before / n, that of a pre-multiplied sum
 * scale_before times the scalar, rounded to fp32 (fp64 for fp64). scale_after may come with any op; an element that it
 * makes infinite counts as overflow, too.
 *
 * Overflow report. For tuttiSum, tuttiAvg and pre-multiplied sums of floats it is one bit that travels with the data;
 * nothing is read or sent once more for it. An element counts that is infinite or NaN as a contribution, after
 * scale_before, as a sum of some contributions, or at the end. (tuttiFloat8e4m3 saturates, so only NaN is reported
 * there.) With integers the report is 0. So all ranks can skip a step together. On an error *overflow is undefined.
 *
 * Codecs. With a codec an element travels in two bytes or fewer, and nothing is rounded but a contribution, once, by
 * its rank, and a sum, once: each rank encodes its contribution (times scale_before), in fp32, for the ranks that own
 * shards of the result; these add what they decode in fp32, in the order of ranks, and encode the sum once more; and
 * all ranks decode the same bytes. Results are then multiplied by scale_after, which for an average is divided by the
 * number of ranks first. All ranks get the same bits, whatever transport, algorithm or place carries them. Codecs:
 *
 *   "fp16", "bf16"          each element rounded to nearest even
 *   "int8[:BLOCK]"          8 bits, and a factor for each BLOCK elements (256)
 *   "qsgd:BITS[,BUCKET]"    BITS bits, 2 to 8, rounded up or down at random so that the mean is right, and a factor for
 *                           each BUCKET elements (512): Alistarh et al., NIPS 2017
 *   "terngrad[:CLIP]"       2 bits, for -s, 0 and s, likewise at random, of values clipped to CLIP (2.5; 0: not) times
 *                           their deviation; sums are exact: Wen et al., NIPS 2017
 *
 * Random numbers depend on the number of the coded call on its communicator, the rank and the element, so a program
 * that is run again gets the same bits. Other codecs keep what they leave out for the next step, and only a fusion does
 * that (tutti_fusion.h). A codec is for tuttiFloat32, tuttiSum and tuttiAvg, buffers in host memory, aligned for
 * floats, and at most 2^31 - 1 elements. An infinite or NaN contribution or sum becomes NaN in all elements that share
 * a factor with it (fp16 and bf16: stays what it is), on all ranks; values of 2^127 and more (terngrad: 2^115) count as
 * infinite; an element of the result counts as overflow if it is infinite or NaN. A codec pays where links are slow: on
 * one host it costs more time than it saves. The call counts as two (terngrad: three) in the order of calls.
 *
 * Must match across ranks, beside the arguments that must match in tuttiAllReduce: the wire type (of tuttiFloat32),
 * scale_after, the codec, and, without a codec, whether overflow is NULL.
 *
 * Errors: as tuttiAllReduce; tuttiInvalidArgument: options not initialised, wire_type none of the three, a scale
 * that is not finite or 0, a scale other than 1 for integers, scale_before other than 1 or overflow with tuttiProd,
 * tuttiMax or tuttiMin, overflow that lies in a buffer or is no host memory; codec unknown, with a parameter out of
 * range, with state, with a wire_type, or with a type, op, count or memory that it is not for. tuttiRemoteError: a code
 * came damaged. */
TUTTI_API tuttiResult_t tuttiAllReduceWith(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                           tuttiRedOp_t op, const tuttiReduceOptions_t *options, tuttiComm_t comm,
                                           tuttiStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
