/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers that FP16 has, kept in floats: a network that computes with them computes as hardware does that multiplies
 * FP16 and adds up in FP32. */
#ifndef LARGE_BATCH_HALF_H
#define LARGE_BATCH_HALF_H

/* The value of FP16 that is nearest to x, in a tie the even one; infinity from 65520 on. */
float half_round(float x);

#endif
