/* SPDX-License-Identifier: BSD-3-Clause */
/* Capture and graphs of the driver double: what is replayed, and what is forbidden meanwhile.
 * Labels: processes. */
#include "self_test.h"

/* A graph with a fork and a join: +1 on one stream, +2 on the other, then a wait for the host. */
static struct exec *graph_make(void *module)
{
  struct graph *graph;
  struct exec *exec;
  void *fork_event, *join_event;
  uint64_t n = LEN / 4;
  OK(cu.cuEventCreate(&fork_event, 2));
  OK(cu.cuEventCreate(&join_event, 2));
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], 0));
  OK(cu.cuEventRecord(fork_event, own.streams[0]));
  OK(cu.cuStreamWaitEvent(own.streams[1], fork_event, 0));
  launch(module, "add", own.streams[0], (void *[]){&own.memory[0], &own.memory[1], &n});
  write_word(own.streams[1], 1, 7);
  OK(cu.cuEventRecord(join_event, own.streams[1]));
  OK(cu.cuStreamWaitEvent(own.streams[0], join_event, 0));
  park(own.streams[0], 0);
  write_word(own.streams[0], 0, 0);
  OK(cu.cuStreamEndCapture(own.streams[0], &graph));
  OK(cu.cuGraphInstantiateWithFlags(&exec, graph, 0));
  OK(cu.cuGraphDestroy(graph));
  return exec;
}

static void replays(void)
{
  void *module;
  OK(cu.cuModuleLoadData(&module, client_ptx));
  OK(cu.cuMemsetD32Async(own.memory[0], 0, LEN / 4, own.streams[0]));
  OK(cu.cuMemsetD32Async(own.memory[1], 3, LEN / 4, own.streams[0]));
  struct exec *exec = graph_make(module);
  CHECK(word(1) == 0); /* nothing runs while it is captured */
  for (int round = 0; round < 50; round++) OK(cu.cuGraphLaunch(exec, own.streams[round % 2]));
  for (int round = 0; round < 50; round++) {
    wait_word(0, 0);
    set_word(0, 1);
  }
  OK(cu.cuCtxSynchronize());
  uint32_t sum;
  OK(cu.cuMemcpyDtoH_v2(&sum, own.memory[0] + LEN - 4, 4));
  CHECK(sum == 150 && word(1) == 7);
  OK(cu.cuGraphExecDestroy(exec));
}

static void *ask_unsafe(void *code)
{
  OK(cu.cuCtxSetCurrent(own.context));
  *(int *)code = cu.cuStreamQuery(own.streams[1]);
  return NULL;
}

static int unsafe_in_another_thread(int mode)
{
  pthread_t thread;
  int code;
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], mode));
  pthread_create(&thread, NULL, ask_unsafe, &code);
  pthread_join(thread, NULL);
  return code;
}

static void forbidden(void)
{
  struct graph *graph;
  void *blocking;
  int mode = 2;
  OK(cu.cuStreamCreate(&blocking, 0));
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], 0));
  CHECK(cu.cuStreamSynchronize(own.streams[0]) == 900);
  CHECK(cu.cuStreamEndCapture(own.streams[0], &graph) == 901 && !graph);
  OK(cu.cuStreamBeginCapture_v2(blocking, 0));
  CHECK(cu.cuMemsetD8Async(own.memory[0], 0, 1, NULL) == 906); /* the legacy stream would wait for it */
  CHECK(cu.cuStreamEndCapture(blocking, &graph) == 901);
  CHECK(unsafe_in_another_thread(0) == 900);
  CHECK(cu.cuStreamEndCapture(own.streams[0], &graph) == 901);
  CHECK(unsafe_in_another_thread(1) == 0);
  CHECK(cu.cuMemFree_v2(own.memory[1]) == 900);
  CHECK(cu.cuStreamEndCapture(own.streams[0], &graph) == 901);
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], 0));
  OK(cu.cuThreadExchangeStreamCaptureMode(&mode));
  OK(cu.cuMemFree_v2(own.memory[1])); /* a relaxed thread may */
  OK(cu.cuStreamEndCapture(own.streams[0], &graph));
  OK(cu.cuGraphDestroy(graph));
}

static void unjoined(void)
{
  struct graph *graph;
  void *event;
  OK(cu.cuEventCreate(&event, 2));
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], 0));
  OK(cu.cuEventRecord(event, own.streams[0]));
  CHECK(cu.cuEventQuery(event) == 900);
  OK(cu.cuThreadExchangeStreamCaptureMode(&(int){2}));
  CHECK(cu.cuEventQuery(event) == 907);
  CHECK(cu.cuStreamEndCapture(own.streams[0], &graph) == 901);
  OK(cu.cuStreamBeginCapture_v2(own.streams[0], 0));
  OK(cu.cuEventRecord(event, own.streams[0]));
  OK(cu.cuStreamWaitEvent(own.streams[1], event, 0));
  write_word(own.streams[1], 1, 7);
  CHECK(cu.cuStreamEndCapture(own.streams[0], &graph) == 904);
}

static void captured_work_is_done_by_each_launch(void **state)
{
  (void)state;
  with("FAKE_SEED=4", replays);
  with("FAKE_CHANNELS=1", replays);
}

static void capture_forbids_what_the_documents_forbid(void **state)
{
  (void)state;
  with("", forbidden);
  with("", unjoined);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(captured_work_is_done_by_each_launch),
      cmocka_unit_test(capture_forbids_what_the_documents_forbid),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
