/* SPDX-License-Identifier: BSD-3-Clause */
/* A CUDA driver of two functions, with memory that it says is a device's, and a stream that can fail. */
#include <stdint.h>

extern char fake_device_memory[4096];
extern int fake_stream_waits, fake_stream_error;
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer);
int cuStreamSynchronize(void *stream);

char fake_device_memory[4096];
int fake_stream_waits, fake_stream_error;

int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
  uint64_t first = (uintptr_t)fake_device_memory;
  if (attribute != 2 || pointer < first || pointer >= first + sizeof fake_device_memory)
    return 1; /* CUDA_ERROR_INVALID_VALUE: memory it does not know */
  *(unsigned *)value = 2;
  return 0;
}

int cuStreamSynchronize(void *stream)
{
  (void)stream;
  fake_stream_waits++;
  return fake_stream_error;
}
