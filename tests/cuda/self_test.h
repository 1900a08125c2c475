/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the driver double by itself: each is a process of its own with its own settings. */
#ifndef SELF_TEST_H
#define SELF_TEST_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client_ptx.h"
#include "driver_load.h"

#include <setjmp.h>
#include <cmocka.h>

#define LEN ((size_t)8192)
#define NON_BLOCKING 1u

static struct driver cu;

/* What every test has: a context, two streams, memory of the GPU, of the host and a page of words. */
static struct {
  void *context, *streams[2];
  uint64_t memory[2];
  unsigned char *host;
  uint32_t *words;
} own;

#define CHECK(condition)                                                        \
  do {                                                                          \
    if (!(condition)) {                                                         \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);   \
      _exit(1);                                                                 \
    }                                                                           \
  } while (0)
#define OK(call)                                                              \
  do {                                                                        \
    int code_ = (call);                                                       \
    if (code_ != 0) fprintf(stderr, "%s:%d: error %d: %s\n", __FILE__, __LINE__, code_, #call); \
    if (code_ != 0) _exit(1);                                                 \
  } while (0)

static inline uint64_t address(const volatile void *pointer)
{
  return (uintptr_t)pointer;
}

static inline void begin(void)
{
  const char *wrong = driver_load(&cu, CUDA_DOUBLE);
  if (wrong) fprintf(stderr, "%s\n", wrong);
  CHECK(!wrong);
  OK(cu.cuInit(0));
  OK(cu.cuDevicePrimaryCtxRetain(&own.context, 0));
  OK(cu.cuCtxSetCurrent(own.context));
  for (int s = 0; s < 2; s++) OK(cu.cuStreamCreate(&own.streams[s], NON_BLOCKING));
  for (int m = 0; m < 2; m++) OK(cu.cuMemAlloc_v2(&own.memory[m], LEN));
  void *host;
  OK(cu.cuMemHostAlloc(&host, LEN, 3));
  own.host = host;
  own.words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(own.words != MAP_FAILED);
  OK(cu.cuMemHostRegister_v2(own.words, 4096, 3));
}

/* Runs `body` in a process with these settings, "NAME=value NAME=value". */
static inline void with(const char *settings, void (*body)(void))
{
  char text[256], *rest = NULL;
  int status = 0;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    alarm(60);
    snprintf(text, sizeof text, "%s", settings);
    for (char *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) putenv(word);
    begin();
    body();
    exit(0);
  }
  assert_true(child > 0 && waitpid(child, &status, 0) == child);
  if (status) fail_msg("with '%s': status %x", settings, (unsigned)status);
}

static inline void set_word(int w, uint32_t value)
{
  __atomic_store_n(&own.words[w], value, __ATOMIC_SEQ_CST);
}

static inline uint32_t word(int w)
{
  return __atomic_load_n(&own.words[w], __ATOMIC_SEQ_CST);
}

static inline void park(void *stream, int w)
{
  OK(cu.cuStreamWaitValue32_v2(stream, address(&own.words[w]), 1, 0));
}

static inline void write_word(void *stream, int w, uint32_t value)
{
  OK(cu.cuStreamWriteValue32_v2(stream, address(&own.words[w]), value, 0));
}

static inline void wait_word(int w, uint32_t value)
{
  while (word(w) != value) usleep(20);
}

static inline void launch(void *module, const char *name, void *stream, void **params)
{
  void *function;
  OK(cu.cuModuleGetFunction(&function, module, name));
  OK(cu.cuLaunchKernel(function, 4, 1, 1, 256, 1, 1, 0, stream, params, NULL));
}

#endif
