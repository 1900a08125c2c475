/* SPDX-License-Identifier: BSD-3-Clause */
/* The fat binary that nvcc made lies in this file's read-only data. */
#include "cuda/image_private.h"

#ifdef TT_CUDA_FATBIN
__asm__(".pushsection .rodata.tt_cuda_image, \"a\"\n"
        ".balign 64\n"
        ".globl tt_cuda_image\n"
        ".hidden tt_cuda_image\n"
        ".type tt_cuda_image, %object\n"
        "tt_cuda_image:\n"
        ".incbin \"" TT_CUDA_FATBIN "\"\n"
        ".byte 0\n"
        ".size tt_cuda_image, . - tt_cuda_image\n"
        ".popsection\n");
const char *const tt_cuda_image_text = TT_CUDA_FATBIN_TEXT;
#else
const char tt_cuda_image[] = ".version 6.0\n.target sm_50\n.address_size 64\n";
const char *const tt_cuda_image_text = 0;
#endif
