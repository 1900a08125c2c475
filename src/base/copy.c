/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/copy.h"

#include <stdint.h>

#include "base/process.h"

#if defined(__x86_64__) && defined(__GLIBC__)
#include <cpuid.h>
#include <gnu/libc-version.h>

#define ZEN3_AND_4 0x19 /* family of these processors */

int tt_memcpy_is_slow(void)
{
  unsigned a, b, c, d;
  if (strverscmp(gnu_get_libc_version(), "2.40") >= 0 || !__get_cpuid(0, &a, &b, &c, &d)) return 0;
  if (b != signature_AMD_ebx || c != signature_AMD_ecx || d != signature_AMD_edx) return 0;
  if (!__get_cpuid(1, &a, &b, &c, &d)) return 0;
  return (a >> 8 & 0xf) + (a >> 20 & 0xff) == ZEN3_AND_4;
}

#else

int tt_memcpy_is_slow(void)
{
  return 0;
}

#endif

void tt_memcpy_long(void *to, const void *from, size_t n)
{
  if (tt_process.copies_in_pieces) {
    for (; n > TT_COPY_PIECE; n -= TT_COPY_PIECE) {
      memcpy(to, from, TT_COPY_PIECE);
      to = (uint8_t *)to + TT_COPY_PIECE;
      from = (const uint8_t *)from + TT_COPY_PIECE;
    }
  }
  memcpy(to, from, n);
}
