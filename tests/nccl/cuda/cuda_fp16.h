/* SPDX-License-Identifier: BSD-3-Clause */
/* NVIDIA's nccl.h includes CUDA's header of this name and uses nothing of it. */
