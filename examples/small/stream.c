/* SPDX-License-Identifier: BSD-3-Clause */
/* A stream: calls return at once, a thread of the library carries them out in order, and the program goes on. */
#include "say.h"

#include <tutti_event.h>

#define COUNT 1000000

int main(void)
{
  static float x[COUNT], sum[COUNT];
  int rank, nranks;
  tuttiComm_t comm = join(&rank, &nranks);
  tuttiStream_t stream;
  tuttiEvent_t event;
  must(tuttiStreamCreate(&stream), "tuttiStreamCreate");
  must(tuttiEventCreate(&event), "tuttiEventCreate");

  for (int i = 0; i < COUNT; i++) x[i] = 1;
  must(tuttiAllReduce(x, sum, COUNT, tuttiFloat, tuttiSum, comm, stream), "tuttiAllReduce");
  must(tuttiEventRecord(event, stream), "tuttiEventRecord"); /* is done when the sum is there */
  must(tuttiBroadcast(sum, sum, 1, tuttiFloat, 0, comm, stream), "tuttiBroadcast");

  double work = 0; /* meanwhile: neither x nor sum may be written, nor sum be read */
  for (int i = 1; i < COUNT; i++) work += 1 / (double)i;
  must(tuttiEventSynchronize(event, -1), "tuttiEventSynchronize");
  printf("rank %d: %g of %d ranks, and %.3f meanwhile\n", rank, (double)sum[COUNT - 1], nranks, work);

  must(tuttiStreamSynchronize(stream), "tuttiStreamSynchronize"); /* all that was queued is done */
  must(tuttiEventDestroy(event), "tuttiEventDestroy");
  must(tuttiStreamDestroy(stream), "tuttiStreamDestroy");
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
