/* SPDX-License-Identifier: BSD-3-Clause */
/* The built-in profile lies in this file's read-only data, as text. */
#include <string.h>

#include "profile/profile.h"

__asm__(".pushsection .rodata.tt_shipped_profile, \"a\"\n"
        ".globl tt_shipped_text\n"
        ".hidden tt_shipped_text\n"
        ".type tt_shipped_text, %object\n"
        "tt_shipped_text:\n"
        ".incbin \"" TT_SHIPPED_PROFILE "\"\n"
        ".byte 0\n"
        ".size tt_shipped_text, . - tt_shipped_text\n"
        ".popsection\n");
extern const char tt_shipped_text[] __attribute__((visibility("hidden")));

static struct tt_profile *shipped_read(void)
{
  struct tt_profile *profile = tt_alloc(1, sizeof *profile);
  FILE *in = profile ? fmemopen((void *)(uintptr_t)tt_shipped_text, strlen(tt_shipped_text), "r") : NULL;
  tuttiResult_t result = tuttiSystemError;
  if (in) {
    result = tt_profile_parse(profile, in, "built in");
    fclose(in);
  } else {
    tt_fail(tuttiSystemError, "no memory for the built-in profile: give the process more");
  }
  if (result == tuttiSuccess) return profile;
  tt_free(profile);
  return NULL;
}

/* Two threads that come first at once both read it, and one of them discards its result. */
const struct tt_profile *tt_profile_shipped(void)
{
  const void *known = atomic_load_explicit(&tt_process.profile, memory_order_acquire);
  if (known) return known;
  struct tt_profile *mine = shipped_read();
  if (!mine) return NULL;
  if (atomic_compare_exchange_strong(&tt_process.profile, &known, mine)) return mine;
  tt_profile_destroy(mine);
  tt_free(mine);
  return known;
}
