/* SPDX-License-Identifier: BSD-3-Clause */
/* The compiled kernels, as the driver loads them. Private to cuda. */
#ifndef TT_CUDA_IMAGE_H
#define TT_CUDA_IMAGE_H

extern const char tt_cuda_image[]; /* a fat binary; without kernels, a module that has none */
extern const char *const tt_cuda_image_text; /* the GPUs it is for; NULL: the library was built without kernels */

#endif
