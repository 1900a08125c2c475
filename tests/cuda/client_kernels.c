/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels that clients of the tests have as PTX (tests/nccl/gpu_kernels.h), by the names of their entries. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "double.h"

static void *at(uint64_t pointer, uint64_t len)
{
  return reach((const void *)(uintptr_t)pointer, len);
}

/* fill(bytes, len, value) */
static const char *fill(const struct kernel *kernel, unsigned blocks, void *args)
{
  const uint64_t *p = args;
  void *bytes = at(p[0], p[1]);
  (void)kernel, (void)blocks;
  if (!bytes) return "fill of memory that no GPU reaches";
  memset(bytes, (int)p[2], p[1]);
  return NULL;
}

/* add(dst, src, words): of 32 bits */
static const char *add(const struct kernel *kernel, unsigned blocks, void *args)
{
  const uint64_t *p = args;
  uint32_t *dst = at(p[0], p[2] * 4);
  const uint32_t *src = at(p[1], p[2] * 4);
  (void)kernel, (void)blocks;
  if (!dst || !src) return "add of memory that no GPU reaches";
  for (uint64_t i = 0; i < p[2]; i++) dst[i] += src[i];
  return NULL;
}

/* check(a, b, len, count): adds the number of bytes that differ to a word */
static const char *check(const struct kernel *kernel, unsigned blocks, void *args)
{
  const uint64_t *p = args;
  const unsigned char *a = at(p[0], p[2]), *b = at(p[1], p[2]);
  uint32_t *count = at(p[3], 4);
  (void)kernel, (void)blocks;
  if (!a || !b || !count) return "check of memory that no GPU reaches";
  uint32_t differ = 0;
  for (uint64_t i = 0; i < p[2]; i++) differ += a[i] != b[i];
  __atomic_add_fetch(count, differ, __ATOMIC_RELAXED);
  return NULL;
}

/* spin_until_word(word, value): until it has the value or a later one */
static const char *spin(const struct kernel *kernel, unsigned blocks, void *args)
{
  const uint64_t *p = args;
  const uint32_t *word = at(p[0], 4);
  (void)kernel, (void)blocks;
  if (!word) return "a kernel waits for a word that no GPU reaches";
  while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - (uint32_t)p[1]) < 0) usleep(20);
  return NULL;
}

const char kernel_trapped[] = "trap";

/* tt_trap(word): the library's own, as text */
static const char *trap(const struct kernel *kernel, unsigned blocks, void *args)
{
  const uint64_t *p = args;
  const uint32_t *word = at(p[0], 4);
  (void)kernel, (void)blocks;
  if (!word) return "a kernel looks at a word that no GPU reaches";
  return __atomic_load_n(word, __ATOMIC_ACQUIRE) ? kernel_trapped : NULL;
}

static const unsigned char of_fill[] = {8, 8, 4, 0}, of_add[] = {8, 8, 8, 0}, of_check[] = {8, 8, 8, 8, 0};
static const unsigned char of_spin[] = {8, 4, 0}, of_trap[] = {8, 0};
static const struct kernel kernels[] = {{"fill", 24, of_fill, fill},
                                        {"add", 24, of_add, add},
                                        {"check", 32, of_check, check},
                                        {"spin_until_word", 16, of_spin, spin},
                                        {"tt_trap", 8, of_trap, trap}};

const struct kernel *client_kernel(const char *name)
{
  for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++)
    if (strcmp(kernels[k].name, name) == 0) return &kernels[k];
  return NULL;
}
