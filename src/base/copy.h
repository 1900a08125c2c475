/* SPDX-License-Identifier: BSD-3-Clause */
/* Copies of payload. Any thread. */
#ifndef TT_BASE_COPY_H
#define TT_BASE_COPY_H

#include <stddef.h>
#include <string.h>

/* glibc copies this many bytes and fewer by loads and stores of vectors, on every processor. */
#define TT_COPY_PIECE 2048

/* As memcpy, for more than TT_COPY_PIECE bytes. */
void tt_memcpy_long(void *to, const void *from, size_t n);

/* As memcpy. glibc before 2.40 copies more than 2,112 bytes with "rep movsb" on AMD's Zen 3 and Zen 4, up to 10 times
 * slower where `from` is aligned and `to` is not (glibc's bug 30994). A slot of shared memory and malloc'ed memory are
 * such a pair. There the copy is made in pieces. */
static inline void tt_memcpy(void *to, const void *from, size_t n)
{
  if (n <= TT_COPY_PIECE) memcpy(to, from, n);
  else tt_memcpy_long(to, from, n);
}

/* Whether memcpy has that fault on this machine. Asks the processor, so it is called once (tt_process_install). */
int tt_memcpy_is_slow(void);

#endif
