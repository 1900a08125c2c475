/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

static struct settings chosen;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static uint64_t number(const char *name, uint64_t otherwise, uint64_t least, uint64_t most)
{
  const char *text = getenv(name);
  char *end;
  if (!text || !*text) return otherwise;
  uint64_t value = strtoull(text, &end, 10);
  if (!*end && value >= least && value <= most) return value;
  fprintf(stderr, "CUDA double: %s=%s: a number from %llu to %llu is wanted\n", name, text, (unsigned long long)least,
          (unsigned long long)most);
  abort();
}

static void choose(void)
{
  const char *kind = getenv("FAKE_FREE");
  chosen.channels = (unsigned)number("CUDA_DEVICE_MAX_CONNECTIONS", 8, 1, CHANNELS);
  chosen.channels = (unsigned)number("FAKE_CHANNELS", chosen.channels, 1, CHANNELS);
  chosen.seed = number("FAKE_SEED", 1, 0, UINT64_MAX);
  chosen.delay_us = (unsigned)number("FAKE_DELAY_US", 20, 0, 1000000);
  chosen.push = (unsigned)number("FAKE_PUSH", 1024, 1, 1u << 20);
  chosen.flags_late_us = (unsigned)number("FAKE_FLAGS_LATE_US", 0, 0, 1000000);
  chosen.bytes_late = (int)number("FAKE_BYTES_LATE", 0, 0, 1);
  chosen.has_memops = (int)number("FAKE_MEMOPS", 1, 0, 2);
  chosen.launch_blocking = (int)number("CUDA_LAUNCH_BLOCKING", 0, 0, 1);
  chosen.report = getenv("FAKE_REPORT");
  if (kind && strcmp(kind, "lock") != 0 && strcmp(kind, "idle") != 0) {
    fprintf(stderr, "CUDA double: FAKE_FREE=%s: idle or lock is wanted\n", kind);
    abort();
  }
  chosen.frees_lock = kind && strcmp(kind, "lock") == 0;
}

const struct settings *settings(void)
{
  pthread_once(&once, choose);
  return &chosen;
}

uint64_t draw(uint64_t *state, uint64_t below)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % below;
}
