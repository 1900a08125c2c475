/* SPDX-License-Identifier: BSD-3-Clause */
/* What libnccl.so.2 does itself, beyond forwarding: config, last error, groups with refusals, pending children,
 * device memory. In one process, against our own header, so that it runs where NVIDIA's is not. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "nccl/abi.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static int says(const char *words)
{
  int found = strstr(pncclGetLastError(NULL), words) != NULL;
  if (!found) fprintf(stderr, "last error is \"%s\", wanted \"%s\"\n", pncclGetLastError(NULL), words);
  return found;
}

static ncclConfig_t config_of(unsigned version, size_t size)
{
  ncclConfig_t config;
  memset(&config, 0x81, sizeof config); /* what a field that the program does not know might be: negative */
  config.size = size;
  config.magic = NCCL_CONFIG_MAGIC;
  config.version = version;
  config.blocking = 1;
  return config;
}

/* Creates a communicator of one rank with the config, and ends it. */
static ncclResult_t init_with(ncclConfig_t *config)
{
  ncclUniqueId id;
  ncclComm_t comm = NULL;
  assert_int_equal(pncclGetUniqueId(&id), tuttiSuccess);
  ncclResult_t result = pncclCommInitRankConfig(&comm, 1, id, 0, config);
  if (result == tuttiSuccess) assert_int_equal(pncclCommDestroy(comm), tuttiSuccess);
  return result;
}

/* ---- config ---- */

static void a_config_of_any_age_is_read_by_its_size_and_version(void **state)
{
  (void)state;
  /* 2.14 ends with blocking and four bytes of nothing; 2.17 with netName; 2.18 with splitShare and nothing */
  ncclConfig_t config = config_of(21400, 24);
  assert_int_equal(init_with(&config), tuttiSuccess);
  config = config_of(21700, 40);
  config.cgaClusterSize = config.minCTAs = config.maxCTAs = NCCL_CONFIG_UNDEF_INT;
  config.netName = NULL;
  assert_int_equal(init_with(&config), tuttiSuccess);
  config.version = 21800;
  config.size = 48;
  config.splitShare = 1;
  assert_int_equal(init_with(&config), tuttiSuccess);

  struct {
    ncclConfig_t known;
    int newer[16];
  } longer = {.known = config};
  memset(&longer.known.splitShare, 0, sizeof longer.known - offsetof(ncclConfig_t, splitShare));
  longer.known.nvlsCTAs = longer.known.nChannelsPerNetPeer = NCCL_CONFIG_UNDEF_INT;
  longer.known.size = sizeof longer;
  longer.known.version = 23000;
  assert_int_equal(init_with(&longer.known), tuttiSuccess);

  ncclConfig_t nothing = {0};
  assert_int_equal(init_with(&nothing), tuttiSuccess); /* NCCL reads no byte of it either */
}

static void a_config_that_was_not_initialised_is_refused(void **state)
{
  (void)state;
  ncclConfig_t config = config_of(22809, sizeof config);
  config.magic = 0;
  assert_int_equal(init_with(&config), tuttiInvalidArgument);
  assert_true(says("NCCL_CONFIG_INITIALIZER"));
}

static void a_config_field_out_of_range_is_named(void **state)
{
  static const struct {
    size_t offset;
    int value;
    const char *words;
  } rows[] = {
      {offsetof(ncclConfig_t, blocking), 2, "config.blocking is 2"},
      {offsetof(ncclConfig_t, cgaClusterSize), -1, "config.cgaClusterSize is -1"},
      {offsetof(ncclConfig_t, minCTAs), 0, "config.minCTAs is 0"},
      {offsetof(ncclConfig_t, maxCTAs), 0, "config.maxCTAs is 0"},
      {offsetof(ncclConfig_t, splitShare), 2, "config.splitShare is 2"},
      {offsetof(ncclConfig_t, collnetEnable), -1, "config.collnetEnable is -1"},
      {offsetof(ncclConfig_t, CTAPolicy), 3, "config.CTAPolicy is 3"},
      {offsetof(ncclConfig_t, shrinkShare), 9, "config.shrinkShare is 9"},
      {offsetof(ncclConfig_t, nvlsCTAs), 0, "config.nvlsCTAs is 0"},
      {offsetof(ncclConfig_t, nChannelsPerNetPeer), 0, "config.nChannelsPerNetPeer is 0"},
      {offsetof(ncclConfig_t, nvlinkCentricSched), 2, "config.nvlinkCentricSched is 2"},
  };
  (void)state;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    ncclConfig_t config = {.size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = 22809, .minCTAs = 1,
                           .maxCTAs = 2, .nvlsCTAs = 1, .nChannelsPerNetPeer = 1, .blocking = 1};
    assert_int_equal(init_with(&config), tuttiSuccess);
    memcpy((char *)&config + rows[r].offset, &rows[r].value, sizeof rows[r].value);
    assert_int_equal(init_with(&config), tuttiInvalidArgument);
    assert_true(says(rows[r].words));
  }
  ncclConfig_t config = {.size = 40, .magic = NCCL_CONFIG_MAGIC, .version = 21700, .minCTAs = 3, .maxCTAs = 2};
  assert_int_equal(init_with(&config), tuttiInvalidArgument);
  assert_true(says("config.minCTAs is 3"));
}

/* ---- errors ---- */

static void only_an_error_with_a_sentence_is_a_refusal(void **state)
{
  (void)state;
  assert_int_equal(tuttiRefuse(tuttiSystemError, "no more 100%"), tuttiSystemError);
  assert_string_equal(tuttiGetLastError(NULL), "no more 100%");
  assert_int_equal(tuttiRefuse(tuttiSystemError, NULL), tuttiInvalidArgument);
  assert_int_equal(tuttiRefuse(tuttiSuccess, "words"), tuttiInvalidArgument);
  assert_int_equal(tuttiRefuse(tuttiInProgress, "words"), tuttiInvalidArgument);
}

static void *fail_elsewhere(void *context)
{
  int *failed = context;
  *failed = pncclGetVersion(NULL) == tuttiInvalidArgument;
  return NULL;
}

static void the_last_error_belongs_to_the_process(void **state)
{
  (void)state;
  pthread_t thread;
  int failed = 0;
  assert_int_equal(pncclGroupEnd(), tuttiInvalidUsage);
  assert_true(says("ncclGroupEnd without ncclGroupStart")); /* no name of Tutti's */
  assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, &failed), 0);
  pthread_join(thread, NULL);
  assert_true(failed);
  assert_true(says("version is NULL"));
}

static void results_have_the_words_of_nccl(void **state)
{
  static const char *const words[] = {"no error", "unhandled cuda error", "unhandled system error", "internal error",
                                      "invalid argument", "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress", "unknown result code"};
  (void)state;
  for (int r = 0; r <= tuttiNumResults; r++)
    assert_true(strncmp(pncclGetErrorString((ncclResult_t)r), words[r], strlen(words[r])) == 0);
}

static void what_cannot_work_says_so(void **state)
{
  ncclTeam_t team = {1, 0, 1};
  (void)state;
  assert_int_equal(pncclCommRevoke(NULL, 0), tuttiInvalidUsage);
  assert_true(says("ncclCommRevoke"));
  assert_int_equal(pncclGroupSimulateEnd(NULL), tuttiInvalidUsage);
  assert_int_equal(pncclDevCommCreate(NULL, NULL, NULL), tuttiInvalidUsage);
  assert_true(says("ncclDevCommCreate"));
  assert_int_equal(pncclDevCommDestroy(NULL, NULL), tuttiInvalidUsage);
  assert_int_equal(pncclLsaBarrierCreateRequirement(team, 1, NULL, NULL), tuttiInvalidUsage);
  assert_int_equal(pncclGinBarrierCreateRequirement(NULL, team, 1, NULL, NULL), tuttiInvalidUsage);
  assert_int_equal(pncclLLA2ACreateRequirement(1, 1, NULL, NULL), tuttiInvalidUsage);
  assert_true(says("ncclLLA2ACreateRequirement"));
  pncclResetDebugInit();
}

/* ---- communicators in one process ---- */

static ncclComm_t comms[3];

static void comms_make(int count)
{
  assert_int_equal(pncclCommInitAll(comms, count, NULL), tuttiSuccess);
}

static void comms_end(int count)
{
  for (int c = 0; c < count; c++) assert_int_equal(pncclCommDestroy(comms[c]), tuttiSuccess);
}

static void sum_is_right(int count)
{
  int x[3] = {1, 2, 4};
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  for (int c = 0; c < count; c++)
    assert_int_equal(pncclAllReduce(&x[c], &x[c], 1, tuttiInt, tuttiSum, comms[c], NULL), tuttiSuccess);
  assert_int_equal(pncclGroupEnd(), tuttiSuccess);
  for (int c = 0; c < count; c++) assert_int_equal(x[c], (1 << count) - 1);
}

static void ranks_of_one_process_have_devices(void **state)
{
  (void)state;
  comms_make(3);
  for (int c = 0; c < 3; c++) {
    int device = -1, rank = -1;
    assert_int_equal(pncclCommCuDevice(comms[c], &device), tuttiSuccess);
    assert_int_equal(pncclCommUserRank(comms[c], &rank), tuttiSuccess);
    assert_true(device == c && rank == c);
  }
  sum_is_right(3);
  comms_end(3);
  const int same[2] = {4, 4}, bad[2] = {0, -1};
  assert_int_equal(pncclCommInitAll(comms, 2, bad), tuttiInvalidArgument);
  assert_int_equal(pncclCommInitAll(comms, 2, same), tuttiSuccess);
  int device = -1;
  assert_int_equal(pncclCommCuDevice(comms[1], &device), tuttiSuccess);
  assert_int_equal(device, 4);
  comms_end(2);
}

/* A refusal of this library alone ends the group as one of Tutti's does. */
static void after_a_refusal_nothing_of_the_group_starts(void **state)
{
  (void)state;
  comms_make(1);
  int x = 5, y = 7;
  ncclComm_t never = NULL;
  ncclConfig_t config = {.size = sizeof config};
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  assert_int_equal(pncclAllReduce(&x, &y, 1, tuttiInt, tuttiSum, comms[0], NULL), tuttiSuccess);
  assert_int_equal(pncclCommSplit(comms[0], 0, 0, &never, &config), tuttiInvalidArgument);
  assert_int_equal(pncclGroupEnd(), tuttiInvalidArgument);
  assert_true(says("NCCL_CONFIG_INITIALIZER"));
  assert_int_equal(y, 7);
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  assert_int_equal(pncclAllReduce(&x, &y, 1, tuttiInt, tuttiSum, comms[0], NULL), tuttiSuccess);
  assert_int_equal(pncclGroupSimulateEnd(NULL), tuttiInvalidUsage);
  assert_int_equal(y, 7);
  sum_is_right(1);
  comms_end(1);
}

/* One thread brings both ranks without a group: that works only if the first call does not wait. */
static void without_blocking_init_does_not_wait(void **state)
{
  (void)state;
  ncclUniqueId id;
  ncclResult_t now = tuttiInProgress;
  ncclConfig_t config = {.size = 24, .magic = NCCL_CONFIG_MAGIC, .version = 21400, .blocking = 0};
  assert_int_equal(pncclGetUniqueId(&id), tuttiSuccess);
  for (int c = 0; c < 2; c++)
    assert_int_equal(pncclCommInitRankConfig(&comms[c], 2, id, c, &config), tuttiInProgress);
  for (int c = 0; c < 2; c++, now = tuttiInProgress) {
    while (now == tuttiInProgress) {
      usleep(500);
      assert_int_equal(pncclCommGetAsyncError(comms[c], &now), tuttiSuccess);
    }
    assert_int_equal(now, tuttiSuccess);
  }
  sum_is_right(2);
  comms_end(2);
}

static void a_parent_is_in_progress_until_its_child_is_ready(void **state)
{
  (void)state;
  comms_make(2);
  ncclComm_t children[2] = {NULL, NULL};
  ncclResult_t parent = tuttiSuccess, child = tuttiSuccess;
  ncclConfig_t config = {.size = 24, .magic = NCCL_CONFIG_MAGIC, .version = 21400, .blocking = 0};
  assert_int_equal(pncclCommSplit(comms[0], 0, 0, &children[0], &config), tuttiInProgress);
  assert_int_equal(pncclCommGetAsyncError(comms[0], &parent), tuttiSuccess);
  assert_int_equal(parent, tuttiInProgress); /* the other rank has not called */
  assert_int_equal(pncclCommSplit(comms[1], 0, 0, &children[1], &config), tuttiInProgress);
  for (int c = 0; c < 2; c++) {
    do {
      usleep(500);
      assert_int_equal(pncclCommGetAsyncError(comms[c], &parent), tuttiSuccess);
    } while (parent == tuttiInProgress);
    assert_int_equal(parent, tuttiSuccess);
    assert_int_equal(pncclCommGetAsyncError(children[c], &child), tuttiSuccess);
    assert_int_equal(child, tuttiSuccess);
  }
  for (int c = 0; c < 2; c++) assert_int_equal(pncclCommDestroy(children[c]), tuttiSuccess);
  sum_is_right(2);
  comms_end(2);
}

static void a_child_that_is_aborted_frees_its_parent(void **state)
{
  (void)state;
  comms_make(2);
  ncclComm_t child = NULL;
  ncclResult_t parent = tuttiSuccess;
  ncclConfig_t config = {.size = 24, .magic = NCCL_CONFIG_MAGIC, .version = 21400, .blocking = 0};
  assert_int_equal(pncclCommSplit(comms[0], 0, 0, &child, &config), tuttiInProgress);
  assert_int_equal(pncclCommAbort(child), tuttiSuccess);
  assert_int_equal(pncclCommGetAsyncError(comms[0], &parent), tuttiSuccess);
  assert_int_not_equal(parent, tuttiInProgress);
  for (int c = 0; c < 2; c++) assert_int_equal(pncclCommAbort(comms[c]), tuttiSuccess);
}

/* ---- memory ---- */

static void a_registration_succeeds_with_a_null_handle(void **state)
{
  (void)state;
  comms_make(1);
  void *buffer = NULL, *handle = &buffer;
  ncclWindow_t window = (ncclWindow_t)(void *)&buffer;
  assert_int_equal(pncclMemAlloc(&buffer, 100), tuttiSuccess);
  assert_int_equal(pncclCommRegister(comms[0], buffer, 100, &handle), tuttiSuccess);
  assert_null(handle);
  assert_int_equal(pncclCommDeregister(comms[0], handle), tuttiSuccess);
  assert_int_equal(pncclCommDeregister(comms[0], &handle), tuttiInvalidArgument);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &window, NCCL_WIN_COLL_SYMMETRIC), tuttiSuccess);
  assert_null(window);
  assert_int_equal(pncclCommWindowDeregister(comms[0], window), tuttiSuccess);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &window, 2), tuttiInvalidArgument);
  assert_int_equal(pncclCommRegister(comms[0], NULL, 100, &handle), tuttiInvalidArgument);
  assert_int_equal(pncclCommRegister(NULL, buffer, 100, &handle), tuttiInvalidArgument);
  assert_int_equal(pncclMemFree(buffer), tuttiSuccess);
  comms_end(1);
}

static void teams_are_arithmetic(void **state)
{
  (void)state;
  comms_make(3);
  ncclTeam_t world = pncclTeamWorld(comms[1]), lsa = pncclTeamLsa(comms[1]), rail = pncclTeamRail(comms[1]);
  assert_true(world.nRanks == 3 && world.rank == 1 && world.stride == 1);
  assert_true(lsa.nRanks == 1 && lsa.rank == 0 && rail.nRanks == 3 && rail.rank == 1);
  assert_int_equal(pncclTeamRankToWorld(comms[1], rail, 2), 2);
  assert_int_equal(pncclTeamRankToWorld(comms[1], lsa, 0), 1);
  assert_int_equal(pncclTeamRankToLsa(comms[1], lsa, 0), 0);
  assert_int_equal(pncclLLA2ACalcSlots(3, 9), 6);
  comms_end(3);
}

/* Last: the driver stays loaded. */
static void device_memory_is_refused_where_the_driver_is_loaded(void **state)
{
  (void)state;
  void *driver = dlopen(FAKE_CUDA, RTLD_NOW | RTLD_LOCAL);
  assert_non_null(driver);
  int *device = dlsym(driver, "fake_device_memory"), *waits = dlsym(driver, "fake_stream_waits");
  int *error = dlsym(driver, "fake_stream_error"), x = 3, y = 0;
  cudaStream_t stream = (cudaStream_t)(void *)&x;
  comms_make(1);
  assert_int_equal(pncclAllReduce(device, &y, 1, tuttiInt, tuttiSum, comms[0], stream), tuttiInvalidUsage);
  assert_true(says("sendbuff") && says("CUDA device"));
  assert_int_equal(pncclBroadcast(&x, device + 4, 1, tuttiInt, 0, comms[0], stream), tuttiInvalidUsage);
  assert_true(says("recvbuff"));
  assert_int_equal(*waits, 0);
  assert_int_equal(pncclAllReduce(&x, &y, 1, tuttiInt, tuttiSum, comms[0], stream), tuttiSuccess);
  assert_true(y == 3 && *waits == 1);
  *error = 201; /* no context: nothing can be on the stream */
  assert_int_equal(pncclAllReduce(&x, &y, 1, tuttiInt, tuttiSum, comms[0], NULL), tuttiSuccess);
  *error = 900; /* the stream is being captured */
  assert_int_equal(pncclAllReduce(&x, &y, 1, tuttiInt, tuttiSum, comms[0], stream), tuttiUnhandledCudaError);
  assert_true(says("CUDA error 900"));
  *error = 0;
  comms_end(1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_config_of_any_age_is_read_by_its_size_and_version),
      cmocka_unit_test(a_config_that_was_not_initialised_is_refused),
      cmocka_unit_test(a_config_field_out_of_range_is_named),
      cmocka_unit_test(only_an_error_with_a_sentence_is_a_refusal),
      cmocka_unit_test(the_last_error_belongs_to_the_process),
      cmocka_unit_test(results_have_the_words_of_nccl),
      cmocka_unit_test(what_cannot_work_says_so),
      cmocka_unit_test(ranks_of_one_process_have_devices),
      cmocka_unit_test(after_a_refusal_nothing_of_the_group_starts),
      cmocka_unit_test(without_blocking_init_does_not_wait),
      cmocka_unit_test(a_parent_is_in_progress_until_its_child_is_ready),
      cmocka_unit_test(a_child_that_is_aborted_frees_its_parent),
      cmocka_unit_test(a_registration_succeeds_with_a_null_handle),
      cmocka_unit_test(teams_are_arithmetic),
      cmocka_unit_test(device_memory_is_refused_where_the_driver_is_loaded),
  };
  alarm(100);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
