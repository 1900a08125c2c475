/* SPDX-License-Identifier: BSD-3-Clause */
/* Options of tests that draw their cases by seed: --seed N, the first one; `count` N (--seeds, --kills), so many of
 * them; --only TEST; --traces yes (simulated.h). A case is drawn by its seed alone, so that this is all that makes it
 * once more. To be included behind cmocka.h. */
#ifndef SEEDS_H
#define SEEDS_H

#include <stdlib.h>
#include <string.h>

static int seeds_traced;

static inline void seeds_read(int argc, char **argv, const char *count, uint64_t *first, int *n)
{
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) *first = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], count) == 0) *n = atoi(argv[i + 1]);
    else if (strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(argv[i + 1]);
    else if (strcmp(argv[i], "--traces") == 0) seeds_traced = strcmp(argv[i + 1], "yes") == 0;
  }
}

#endif
