/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of one rank, for a counter of instructions (tests/nccl/gpu_numbers): an all-reduce in place of so many bytes of
 * host memory, or of memory of the driver double's GPU on a CUDA stream.
 *
 *   bench_call host|stream BYTES CALLS */
#include "../multi/gpu_rank.h"
#include "tutti.h"

static int run(int is_host, size_t bytes, int calls)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream = NULL;
  void *memory = malloc(bytes);
  if (!is_host && gpu_begin(&gpu, 0)) return 1;
  if (!memory || tuttiCommInitAll(&comm, 1, NULL) != tuttiSuccess) return 1;
  memset(memory, 0, bytes);
  if (!is_host && tuttiStreamFromCuda(&stream, gpu.streams[0]) != tuttiSuccess) return 1;
  void *data = is_host ? memory : gpu_alloc(&gpu, bytes);
  for (int k = 0; k < calls; k++) {
    if (tuttiAllReduce(data, data, bytes / 4, tuttiInt32, tuttiSum, comm, stream) != tuttiSuccess) return 1;
    if (stream && gpu_wait(&gpu, gpu.streams[0])) return 1;
  }
  if (stream) tuttiStreamDestroy(stream);
  free(memory);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

int main(int argc, char **argv)
{
  int is_host = argc == 4 && strcmp(argv[1], "host") == 0;
  if (argc != 4 || (!is_host && strcmp(argv[1], "stream") != 0)) {
    fprintf(stderr, "bench_call host|stream BYTES CALLS\n");
    return 2;
  }
  return run(is_host, strtoull(argv[2], NULL, 10), atoi(argv[3]));
}
