/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels of clients as PTX: a real driver compiles them, the double has functions of the same names
 * (client_kernels.c). Each strides over its elements with the whole grid.
 *
 *   fill(u64 bytes, u64 len, u32 value)         sets bytes
 *   add(u64 dst, u64 src, u64 words)            adds words of 32 bits
 *   check(u64 a, u64 b, u64 len, u64 count)     adds the number of bytes that differ to a word
 *   spin_until_word(u64 word, u32 value)        one thread: until the word has the value or a later one */
#ifndef CLIENT_PTX_H
#define CLIENT_PTX_H

#define PTX_BEGIN                                            \
  "  .reg .pred %p<4>; .reg .b32 %r<12>; .reg .b64 %d<16>;\n" \
  "  mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mov.u32 %r3, %nctaid.x;\n" \
  "  mad.lo.u32 %r4, %r0, %r1, %r2; cvt.u64.u32 %d0, %r4;\n" /* d0: element */ \
  "  mul.lo.u32 %r5, %r1, %r3; cvt.u64.u32 %d1, %r5;\n"      /* d1: stride */

static const char client_ptx[] =
    ".version 6.0\n.target sm_60\n.address_size 64\n"
    ".visible .entry fill(.param .u64 a, .param .u64 n, .param .u32 v)\n{\n" PTX_BEGIN
    "  ld.param.u64 %d2, [a]; ld.param.u64 %d3, [n]; ld.param.u32 %r6, [v];\n"
    "F: setp.ge.u64 %p0, %d0, %d3; @%p0 bra G;\n"
    "  add.u64 %d4, %d2, %d0; st.global.u8 [%d4], %r6; add.u64 %d0, %d0, %d1; bra F;\n"
    "G: ret;\n}\n"
    ".visible .entry add(.param .u64 a, .param .u64 b, .param .u64 n)\n{\n" PTX_BEGIN
    "  ld.param.u64 %d2, [a]; ld.param.u64 %d3, [b]; ld.param.u64 %d4, [n];\n"
    "F: setp.ge.u64 %p0, %d0, %d4; @%p0 bra G;\n"
    "  shl.b64 %d5, %d0, 2; add.u64 %d6, %d2, %d5; add.u64 %d7, %d3, %d5;\n"
    "  ld.global.u32 %r6, [%d6]; ld.global.u32 %r7, [%d7]; add.u32 %r6, %r6, %r7; st.global.u32 [%d6], %r6;\n"
    "  add.u64 %d0, %d0, %d1; bra F;\n"
    "G: ret;\n}\n"
    ".visible .entry check(.param .u64 a, .param .u64 b, .param .u64 n, .param .u64 c)\n{\n" PTX_BEGIN
    "  ld.param.u64 %d2, [a]; ld.param.u64 %d3, [b]; ld.param.u64 %d4, [n]; ld.param.u64 %d5, [c];\n"
    "  mov.u32 %r8, 0;\n"
    "F: setp.ge.u64 %p0, %d0, %d4; @%p0 bra G;\n"
    "  add.u64 %d6, %d2, %d0; add.u64 %d7, %d3, %d0; ld.global.u8 %r6, [%d6]; ld.global.u8 %r7, [%d7];\n"
    "  setp.ne.u32 %p1, %r6, %r7; @%p1 add.u32 %r8, %r8, 1; add.u64 %d0, %d0, %d1; bra F;\n"
    "G: setp.eq.u32 %p2, %r8, 0; @%p2 bra H;\n"
    "  atom.global.add.u32 %r9, [%d5], %r8;\n"
    "H: ret;\n}\n"
    ".visible .entry spin_until_word(.param .u64 a, .param .u32 v)\n{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<4>;\n"
    "  ld.param.u64 %d0, [a]; ld.param.u32 %r0, [v];\n"
    "F: ld.volatile.global.u32 %r1, [%d0]; sub.u32 %r2, %r1, %r0; setp.lt.s32 %p0, %r2, 0; @%p0 bra F;\n"
    "  membar.sys; ret;\n}\n";

#endif
