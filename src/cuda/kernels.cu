/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduce kernels on the GPU: one per type and operation, for any number of sources. avg and pre-multiplied sums are
 * `sum` with a scaled source or a divisor. Memory is the bottleneck, so uniform branches tell the variants of a call
 * apart, and 16 bytes are loaded at a time where every pointer allows it.
 *
 * The thread that writes an element reads all its sources first, so dst may be any of them. */
#include "cuda/elements.cuh"
#include "cuda/params_private.h"

#ifdef __CUDACC__
#define TT_DEVICE __device__ __forceinline__
#define TT_PARAMS const __grid_constant__ tt_cuda_params p
#define TT_UNROLL _Pragma("unroll")
typedef uint4 quad; /* 16 bytes that are loaded and stored at once */

/* In assembler, because the compiler makes several stores of a quad that was put together from smaller elements. */
TT_DEVICE void quad_store(void *to, quad q)
{
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};"
               : : "l"(to), "r"(q.x), "r"(q.y), "r"(q.z), "r"(q.w) : "memory");
}
#endif

namespace {

enum operation { op_sum, op_prod, op_max, op_min };

template <class E, int op> TT_DEVICE typename E::value apply(typename E::value a, typename E::value b)
{
  if (op == op_sum) return E::sum(a, b);
  if (op == op_prod) return E::prod(a, b);
  return op == op_max ? E::max(a, b) : E::min(a, b);
}

/* Loads elements at .. at + n - 1: one of any alignment, or as many as fill whole vectors. */
template <class T, int n> TT_DEVICE void load(T *to, const void *from, uint64_t at, int is_aligned)
{
  const T *first = (const T *)from + at;
  if (n > 1) {
    TT_UNROLL
    for (int v = 0; v < (int)(n * sizeof(T) / 16); v++) {
      quad bytes = ((const quad *)first)[v];
      memcpy((char *)to + 16 * v, &bytes, 16);
    }
  } else if (is_aligned) {
    *to = *first;
  } else {
    for (int b = 0; b < (int)sizeof(T); b++) ((unsigned char *)to)[b] = ((const unsigned char *)first)[b];
  }
}

template <class T, int n> TT_DEVICE void store(void *to, uint64_t at, const T *from, int is_aligned)
{
  T *first = (T *)to + at;
  if (n > 1) {
    TT_UNROLL
    for (int v = 0; v < (int)(n * sizeof(T) / 16); v++) {
      uint32_t word[4];
      memcpy(word, (const char *)from + 16 * v, 16);
      const quad bytes = {word[0], word[1], word[2], word[3]};
      quad_store((quad *)first + v, bytes);
    }
  } else if (is_aligned) {
    *first = *from;
  } else {
    for (int b = 0; b < (int)sizeof(T); b++) ((unsigned char *)first)[b] = ((const unsigned char *)from)[b];
  }
}

TT_DEVICE const void *source_of(const tt_cuda_params &p, int k)
{
  return p.nsrc > TT_CUDA_INLINE ? p.table[k] : p.sources[k];
}

/* Loads fp32 elements of the wide source, rounded to the type. */
template <class E, int n>
TT_DEVICE void load_wide(typename E::value *v, const void *source, const tt_cuda_params &p, uint64_t at, int is_scaled)
{
  uint32_t wide[n];
  load<uint32_t, n>(wide, source, at, p.is_aligned);
  TT_UNROLL
  for (int i = 0; i < n; i++) {
    float f = bits_as<float>(wide[i]);
    v[i] = is_scaled ? E::scale((typename E::value)f, p.scale, 0) : E::widen(E::narrow((typename E::value)f));
  }
}

/* Loads the contribution of source k. */
template <class E, int n>
TT_DEVICE void contribution(typename E::value *v, const tt_cuda_params &p, int k, uint64_t at)
{
  typename E::bits raw[n];
  if (E::has_wide && k == p.wide) {
    load_wide<E, n>(v, source_of(p, k), p, at, k == p.scaled);
    return;
  }
  load<typename E::bits, n>(raw, source_of(p, k), at, p.is_aligned);
  TT_UNROLL
  for (int i = 0; i < n; i++) v[i] = E::widen(raw[i]);
  if (k != p.scaled) return;
  TT_UNROLL
  for (int i = 0; i < n; i++) v[i] = E::scale(v[i], p.scale, p.multiplier);
}

/* Writes the result to its destinations, and the overflow report. */
template <class E, int n> TT_DEVICE void deliver(const tt_cuda_params &p, uint64_t at, const typename E::bits *out)
{
  if (E::has_wide && p.dst_wide) {
    uint32_t wide[n];
    TT_UNROLL
    for (int i = 0; i < n; i++) wide[i] = element_float::narrow((float)E::widen(out[i]));
    store<uint32_t, n>(p.dst, at, wide, p.is_aligned);
  } else {
    store<typename E::bits, n>(p.dst, at, out, p.is_aligned);
  }
  if (p.also) store<typename E::bits, n>(p.also, at, out, p.is_aligned);
  if (E::is_always_finite || !p.overflow) return;
  bool all = true;
  TT_UNROLL
  for (int i = 0; i < n; i++) all = all && E::is_finite(out[i]);
  if (!all) *p.overflow = 1;
}

template <class E, int op, int n> TT_DEVICE void piece(const tt_cuda_params &p, uint64_t at)
{
  typename E::bits out[n];
  typename E::value acc[n], next[n];
  if (p.keeps_bits) {
    load<typename E::bits, n>(out, source_of(p, 0), at, p.is_aligned);
    deliver<E, n>(p, at, out);
    return;
  }
  contribution<E, n>(acc, p, 0, at);
  for (int k = 1; k < p.nsrc; k++) {
    contribution<E, n>(next, p, k, at);
    TT_UNROLL
    for (int i = 0; i < n; i++) acc[i] = apply<E, op>(acc[i], next[i]);
  }
  if (op == op_sum && p.divisor > 1) {
    TT_UNROLL
    for (int i = 0; i < n; i++) acc[i] = E::divide(acc[i], p.divisor);
  }
  TT_UNROLL
  for (int i = 0; i < n; i++) out[i] = E::narrow(acc[i]);
  deliver<E, n>(p, at, out);
}

/* The most frequent reduction, with four loads on their way at once: vectors v and v + stride of two sources. */
template <class E, int op> TT_DEVICE void plain_pair(const tt_cuda_params &p, uint64_t v, uint64_t stride)
{
  const int n = TT_CUDA_VECTOR / sizeof(typename E::bits);
  typename E::bits a[2][n], b[2][n];
  const int both = v + stride < p.vectors;
  TT_UNROLL
  for (int u = 0; u < 2; u++) {
    if (u && !both) break;
    load<typename E::bits, n>(a[u], p.sources[0], p.head + (v + u * stride) * n, 1);
    load<typename E::bits, n>(b[u], p.sources[1], p.head + (v + u * stride) * n, 1);
  }
  TT_UNROLL
  for (int u = 0; u < 2; u++) {
    if (u && !both) break;
    TT_UNROLL
    for (int i = 0; i < n; i++) a[u][i] = E::narrow(apply<E, op>(E::widen(a[u][i]), E::widen(b[u][i])));
    store<typename E::bits, n>(p.dst, p.head + (v + u * stride) * n, a[u], 1);
  }
}

template <class E, int op> TT_DEVICE void combine(const tt_cuda_params &p)
{
  const int n = TT_CUDA_VECTOR / sizeof(typename E::bits);
  const uint64_t stride = (uint64_t)gridDim.x * TT_CUDA_THREADS;
  const uint64_t me = (uint64_t)blockIdx.x * TT_CUDA_THREADS + threadIdx.x;
  if (p.is_plain_pair) {
    for (uint64_t v = me; v < p.vectors; v += 2 * stride) plain_pair<E, op>(p, v, stride);
  } else {
    for (uint64_t v = me; v < p.vectors; v += stride) piece<E, op, n>(p, p.head + v * n);
  }
  const uint64_t rest = p.count - p.vectors * n;
  for (uint64_t i = me; i < rest; i += stride) piece<E, op, 1>(p, i < p.head ? i : i + p.vectors * n);
}

} // namespace

#define TT_KERNEL(op, type)                                                             \
  extern "C" __global__ void __launch_bounds__(TT_CUDA_THREADS) tt_##op##_##type(TT_PARAMS) \
  {                                                                                     \
    combine<element_##type, op_##op>(p);                                                \
  }

/* Kernels are named with the names of tt_redop_name and tt_type_name. */
#define TT_KERNELS(type) TT_KERNEL(sum, type) TT_KERNEL(prod, type) TT_KERNEL(max, type) TT_KERNEL(min, type)
TT_KERNELS(int8)
TT_KERNELS(uint8)
TT_KERNELS(int32)
TT_KERNELS(uint32)
TT_KERNELS(int64)
TT_KERNELS(uint64)
TT_KERNELS(half)
TT_KERNELS(float)
TT_KERNELS(double)
TT_KERNELS(bfloat16)
TT_KERNELS(f8e4m3)
TT_KERNELS(f8e5m2)
