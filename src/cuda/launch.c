/* SPDX-License-Identifier: BSD-3-Clause */
/* From a reduction to the argument and the grid of its kernel. */
#include <string.h>

#include "cuda/gpu_private.h"

#define ALIGNED(address, bytes) ((uintptr_t)(address) % (uintptr_t)(bytes) == 0)

/* Operand number k: every source, then dst, then `also` if there is one, then NULL. */
static struct cuda_operand *operand_at(struct cuda_work *work, int k)
{
  if (k < work->nsrc) return &work->sources[k];
  if (k == work->nsrc) return &work->dst;
  return k == work->nsrc + 1 && work->also.at ? &work->also : NULL;
}

int tt_cuda_keeps_bits(const struct tt_reduce_arg *arg, int nsrc)
{
  return nsrc == 1 && arg->scaled < 0 && arg->wide < 0 && !arg->dst_wide && arg->divisor <= 1;
}

/* ---- cuts ---- */

/* The offset of the stage's data; before them are, with many sources, the operands and the list for the kernel. */
static size_t stage_data(const struct cuda_work *work)
{
  size_t n = (size_t)work->nsrc;
  return n > TT_CUDA_INLINE ? n * (sizeof(struct cuda_operand) + sizeof(void *)) : 0;
}

/* Elements of the next cut; all that are left if nothing is staged. Cuts longer than a vector end where vectors do. */
static size_t cut_count(struct cuda_work *work)
{
  size_t left = work->count - work->done, each = 0, used = stage_data(work);
  const struct cuda_operand *operand;
  for (int k = 0; (operand = operand_at(work, k)); k++) {
    if (!operand->is_staged) continue;
    each += (size_t)operand->size;
    used += 2 * TT_CUDA_VECTOR; /* may be lost to alignment */
  }
  size_t fits = each ? (CUDA_STAGE_BYTES - used) / each : left;
  if (fits >= left) return left;
  return fits > TT_CUDA_VECTOR ? fits - fits % TT_CUDA_VECTOR : fits;
}

/* Elements before the first address of `operand` that is a multiple of a vector; 0 if there is no such address. */
static size_t head_of(const struct cuda_work *work, const struct cuda_operand *operand)
{
  size_t size = (size_t)operand->size, off = (uintptr_t)(operand->at + work->done * size) % TT_CUDA_VECTOR;
  return off % size ? 0 : (TT_CUDA_VECTOR - off) % TT_CUDA_VECTOR / size;
}

/* The head of the first operand in GPU memory, of one with elements of the type's size if there is one. The alignment
 * of all others is checked against it, and staged operands are placed by it. */
static size_t head_choose(struct cuda_work *work)
{
  const struct cuda_operand *operand;
  int size = (int)tt_type_size(work->type);
  for (int any = 0; any < 2; any++)
    for (int k = 0; (operand = operand_at(work, k)); k++)
      if (!operand->is_staged && (any || operand->size == size)) return head_of(work, operand);
  return 0;
}

/* ---- the argument ---- */

/* The argument of one cut, and the places of its operands. */
struct cut {
  struct tt_cuda_params params;
  char *stage;    /* the free part of the stage */
  int can_vector; /* every pointer is a multiple of a vector after the head */
};

/* The address at which the kernel finds an operand. Staged memory is placed so that vectors begin after the head. */
static char *place(struct cuda_work *work, struct cut *cut, const struct cuda_operand *operand, int reads)
{
  size_t size = (size_t)operand->size, head = size * cut->params.head;
  char *at = (char *)(uintptr_t)operand->at + work->done * size;
  if (operand->is_staged) {
    uintptr_t vector = ((uintptr_t)cut->stage + head + TT_CUDA_VECTOR - 1) / TT_CUDA_VECTOR * TT_CUDA_VECTOR;
    const char *from = at;
    at = (char *)(vector - head);
    cut->stage = at + work->cut * size;
    if (reads) memcpy(at, from, work->cut * size);
  }
  if (!ALIGNED(at, size)) cut->params.is_aligned = 0;
  if (!ALIGNED(at + head, TT_CUDA_VECTOR)) cut->can_vector = 0;
  return at;
}

/* Places the sources. If there are too many for the argument, their list lies in the stage, which the GPU can read. */
static void sources_place(struct cuda_work *work, struct cut *cut)
{
  const void **list = cut->params.sources;
  if (work->nsrc > TT_CUDA_INLINE) {
    list = (const void **)(void *)(work->stage + (size_t)work->nsrc * sizeof(struct cuda_operand));
    cut->params.table = list;
  }
  for (int k = 0; k < work->nsrc; k++) list[k] = place(work, cut, &work->sources[k], 1);
}

static void params_fill(struct cuda_work *work, struct cut *cut)
{
  struct tt_cuda_params *p = &cut->params;
  const struct tt_reduce_arg *arg = &work->arg;
  p->count = work->cut;
  p->nsrc = work->nsrc;
  p->scaled = arg->scaled;
  p->wide = arg->wide;
  p->dst_wide = arg->dst_wide;
  p->divisor = arg->divisor;
  p->scale = arg->scale;
  p->multiplier = arg->multiplier;
  p->is_aligned = cut->can_vector = 1;
  p->head = head_choose(work);
  sources_place(work, cut);
  p->dst = place(work, cut, &work->dst, 0);
  work->staged_dst = work->dst.is_staged ? p->dst : NULL;
  if (work->also.at) p->also = place(work, cut, &work->also, 0);
  work->staged_also = work->also.is_staged ? p->also : NULL;
  if (work->overflow) p->overflow = work->flag;
  size_t per_vector = TT_CUDA_VECTOR / tt_type_size(work->type);
  if (cut->can_vector && p->count > p->head) p->vectors = (p->count - p->head) / per_vector;
  if (!p->vectors) p->head = 0;
  p->keeps_bits = tt_cuda_keeps_bits(arg, p->nsrc);
  p->is_plain_pair = p->nsrc == 2 && p->scaled < 0 && p->wide < 0 && !p->dst_wide && !p->also && !p->overflow &&
                     p->divisor <= 1;
}

tuttiResult_t tt_cuda_reduce_start(struct cuda_gpu *gpu, struct cuda_work *work)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  struct cut cut = {.stage = work->stage + stage_data(work)};
  work->cut = cut_count(work);
  *work->flag = 0;
  params_fill(work, &cut);
  const struct tt_cuda_params *p = &cut.params;
  uint64_t vectors = p->is_plain_pair ? (p->vectors + 1) / 2 : p->vectors;
  uint64_t rest = p->count - p->vectors * (TT_CUDA_VECTOR / tt_type_size(work->type));
  uint64_t blocks = ((vectors > rest ? vectors : rest) + TT_CUDA_THREADS - 1) / TT_CUDA_THREADS;
  if (blocks > gpu->most_blocks) blocks = gpu->most_blocks;
  void *arguments[] = {&cut.params};
  int code = driver->launch(gpu->kernels[work->operation][work->type], (unsigned)blocks, 1, 1, TT_CUDA_THREADS, 1, 1, 0,
                            work->stream, arguments, NULL);
  return code == CU_SUCCESS ? tuttiSuccess : tt_cuda_fail(driver, "cuLaunchKernel", gpu->ordinal, code);
}
