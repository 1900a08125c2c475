/* SPDX-License-Identifier: BSD-3-Clause */
/* What libnccl.so.2 does itself, beyond forwarding: config, last error, groups with refusals, pending children,
 * device memory. In one process, against our own header, so that it runs where NVIDIA's is not. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_load.h"
#include "nccl/abi.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#include "comms.h"

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
  longer.known.nvlsCTAs = longer.known.nChannelsPerNetPeer = longer.known.maxP2pPeers = NCCL_CONFIG_UNDEF_INT;
  longer.known.size = sizeof longer;
  longer.known.version = 23100;
  assert_int_equal(init_with(&longer.known), tuttiSuccess);

  /* 2.29 ends with numRmaCtx, 2.30 with graphStreamOrdering */
  memset(&longer.known.maxP2pPeers, 0x81, sizeof longer - offsetof(ncclConfig_t, maxP2pPeers));
  longer.known.size = offsetof(ncclConfig_t, maxP2pPeers);
  longer.known.version = 22907;
  assert_int_equal(init_with(&longer.known), tuttiSuccess);
  longer.known.maxP2pPeers = 8;
  longer.known.graphStreamOrdering = 1;
  longer.known.size = sizeof longer.known;
  longer.known.version = 23007;
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
      {offsetof(ncclConfig_t, CTAPolicy), 4, "config.CTAPolicy is 4"},
      {offsetof(ncclConfig_t, shrinkShare), 9, "config.shrinkShare is 9"},
      {offsetof(ncclConfig_t, nvlsCTAs), 0, "config.nvlsCTAs is 0"},
      {offsetof(ncclConfig_t, nChannelsPerNetPeer), 0, "config.nChannelsPerNetPeer is 0"},
      {offsetof(ncclConfig_t, nvlinkCentricSched), 2, "config.nvlinkCentricSched is 2"},
      {offsetof(ncclConfig_t, graphUsageMode), 3, "config.graphUsageMode is 3"},
      {offsetof(ncclConfig_t, numRmaCtx), -1, "config.numRmaCtx is -1"},
      {offsetof(ncclConfig_t, maxP2pPeers), 0, "config.maxP2pPeers is 0"},
      {offsetof(ncclConfig_t, graphStreamOrdering), 2, "config.graphStreamOrdering is 2"},
  };
  (void)state;
  for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
    ncclConfig_t config = {.size = sizeof config, .magic = NCCL_CONFIG_MAGIC, .version = 23007, .minCTAs = 1,
                           .maxCTAs = 2, .nvlsCTAs = 1, .nChannelsPerNetPeer = 1, .blocking = 1, .maxP2pPeers = 1};
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
                                      "NCCL operation in progress", "timeout", "unknown result code"};
  (void)state;
  for (int r = 0; r <= NCCL_TIMEOUT + 1; r++)
    assert_true(strncmp(pncclGetErrorString((ncclResult_t)r), words[r], strlen(words[r])) == 0);
}

static void what_cannot_work_says_so(void **state)
{
  ncclTeam_t team = {1, 0, 1};
  (void)state;
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

#define IS_REFUSED(name, ...) \
  do { \
    assert_int_equal(p##name(__VA_ARGS__), tuttiInvalidUsage); \
    assert_true(says(#name)); \
  } while (0)

static void later_names_that_cannot_work_say_so(void **state)
{
  ncclTeam_t team = {1, 0, 1};
  ncclMultimemHandle_t multimem = {NULL};
  void *ptr = NULL;
  (void)state;
  IS_REFUSED(ncclPutSignal, &team, 1, tuttiInt, 0, NULL, 0, 0, 0, 0, NULL, NULL);
  assert_true(says("ncclSend"));
  IS_REFUSED(ncclSignal, 0, 0, 0, 0, NULL, NULL);
  IS_REFUSED(ncclWaitSignal, 0, NULL, NULL, NULL);
  IS_REFUSED(ncclGinOutboxCreateRequirement, 1, 1, NULL, NULL);
  IS_REFUSED(ncclGinInboxA2ACreateRequirement, team, 1, 1, NULL, NULL);
  IS_REFUSED(ncclGetLsaDevicePointer, NULL, 0, 0, &ptr);
  IS_REFUSED(ncclGetPeerDevicePointer, NULL, 0, 0, &ptr);
  IS_REFUSED(ncclGetLsaMultimemDevicePointer, NULL, 0, &ptr);
  IS_REFUSED(ncclGetMultimemDevicePointer, NULL, 0, multimem, &ptr);
  assert_null(ptr);
}

static void there_are_no_parameters_of_nccl(void **state)
{
  ncclParamHandle_t handle = NULL;
  const char **keys = NULL, *text = "unchanged";
  int count = -1;
  int64_t number = 7;
  (void)state;
  assert_int_equal(pncclParamGetAllParameterKeys(&keys, &count), tuttiSuccess);
  assert_true(keys && count == 0);
  assert_int_equal(pncclParamGetAllParameterKeys(NULL, &count), tuttiInvalidArgument);
  assert_int_equal(pncclParamBind(&handle, "NCCL_DEBUG"), tuttiInvalidArgument);
  assert_true(says("NCCL_DEBUG") && says("tutti info"));
  assert_int_equal(pncclParamGetParameter("NCCL_DEBUG", &text, &count), tuttiInvalidArgument);
  assert_true(!text && count == 0);
  assert_int_equal(pncclParamGetI64(handle, &number), tuttiInvalidArgument);
  assert_true(says("ncclParamBind") && number == 7);
  assert_int_equal(pncclParamGetStr(handle, &text), tuttiInvalidArgument);
  assert_int_equal(pncclParamGet(handle, &number, 8, &count), tuttiInvalidArgument);
  pncclParamDumpAll();
}

/* ---- communicators in one process ---- */

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
  ncclConfig_t config = {.size = 24, .magic = NCCL_CONFIG_MAGIC, .version = 21400, .blocking = 0};
  assert_int_equal(pncclGetUniqueId(&id), tuttiSuccess);
  for (int c = 0; c < 2; c++)
    assert_int_equal(pncclCommInitRankConfig(&comms[c], 2, id, c, &config), tuttiInProgress);
  for (int c = 0; c < 2; c++) comm_await(comms[c]);
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
    comm_await(comms[c]);
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

/* NCCL: afterwards the state is success, launches are invalid usage, and management goes on. */
static void after_a_revoke_the_state_is_success_and_launches_are_refused(void **state)
{
  (void)state;
  int x = 1;
  ncclResult_t now = tuttiInProgress;
  ncclComm_t fewer[2] = {NULL, NULL};
  comms_make(2);
  assert_int_equal(pncclCommRevoke(NULL, 0), tuttiSuccess);
  assert_int_equal(pncclCommRevoke(comms[0], 1), tuttiInvalidArgument);
  for (int c = 0; c < 2; c++) {
    assert_int_equal(pncclCommRevoke(comms[c], 0), tuttiSuccess);
    assert_int_equal(pncclCommGetAsyncError(comms[c], &now), tuttiSuccess);
    assert_int_equal(now, tuttiSuccess);
    assert_int_equal(pncclAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comms[c], NULL), tuttiInvalidUsage);
    assert_true(says("rank 0") && says("has revoked"));
  }
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  for (int c = 0; c < 2; c++)
    assert_int_equal(pncclCommShrink(comms[c], NULL, 0, &fewer[c], NULL, 0), tuttiSuccess);
  assert_int_equal(pncclGroupEnd(), tuttiSuccess);
  comms_end(2);
  memcpy(comms, fewer, sizeof fewer);
  sum_is_right(2);
  comms_end(2);
}

static void a_suspended_communicator_takes_no_operations_until_it_is_resumed(void **state)
{
  (void)state;
  uint64_t value[4];
  int x = 1;
  comms_make(2);
  sum_is_right(2);
  for (int s = 0; s < 4; s++)
    assert_int_equal(pncclCommMemStats(comms[0], (ncclCommMemStat_t)s, &value[s]), tuttiSuccess);
  assert_true(value[1] == 0 && value[2] > 0 && value[3] == value[0] + value[2]);
  assert_int_equal(pncclCommSuspend(comms[0], 1), tuttiSuccess);
  assert_int_equal(pncclCommMemStats(comms[0], (ncclCommMemStat_t)1, &value[1]), tuttiSuccess);
  assert_int_equal(value[1], 1);
  assert_int_equal(pncclAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comms[0], NULL), tuttiInvalidUsage);
  assert_true(says("ncclCommResume"));
  assert_int_equal(pncclCommResume(comms[0]), tuttiSuccess);
  sum_is_right(2);
  comms_end(2);
}

/* ---- memory ---- */

static void a_registration_succeeds_with_a_null_handle(void **state)
{
  (void)state;
  comms_make(1);
  void *buffer = NULL, *handle = &buffer;
  assert_int_equal(pncclMemAlloc(&buffer, 100), tuttiSuccess);
  assert_int_equal(pncclCommRegister(comms[0], buffer, 100, &handle), tuttiSuccess);
  assert_null(handle);
  assert_int_equal(pncclCommDeregister(comms[0], handle), tuttiSuccess);
  assert_int_equal(pncclCommDeregister(comms[0], &handle), tuttiInvalidArgument);
  assert_int_equal(pncclCommRegister(comms[0], NULL, 100, &handle), tuttiInvalidArgument);
  assert_int_equal(pncclCommRegister(NULL, buffer, 100, &handle), tuttiInvalidArgument);
  assert_int_equal(pncclMemFree(buffer), tuttiSuccess);
  comms_end(1);
}

static void a_window_knows_its_pointer_while_it_lives(void **state)
{
  (void)state;
  char buffer[200];
  void *ptr = NULL;
  ncclWindow_t first = NULL, second = NULL;
  comms_make(2);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &first, NCCL_WIN_COLL_SYMMETRIC), tuttiSuccess);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer + 100, 100, &second, NCCL_WIN_STRICT_ORDERING),
                   tuttiSuccess);
  assert_true(first && second && first != second);
  assert_int_equal(pncclWinGetUserPtr(comms[0], first, &ptr), tuttiSuccess);
  assert_ptr_equal(ptr, buffer);
  assert_int_equal(pncclWinGetUserPtr(comms[0], second, &ptr), tuttiSuccess);
  assert_ptr_equal(ptr, buffer + 100);
  assert_int_equal(pncclWinGetUserPtr(comms[1], first, &ptr), tuttiInvalidArgument); /* of another communicator */
  assert_int_equal(pncclCommWindowDeregister(comms[0], first), tuttiSuccess);
  assert_int_equal(pncclCommWindowDeregister(comms[0], first), tuttiInvalidArgument);
  assert_int_equal(pncclWinGetUserPtr(comms[0], first, &ptr), tuttiInvalidArgument);
  assert_true(says("ncclCommWindowRegister"));
  assert_int_equal(pncclWinGetUserPtr(comms[0], second, NULL), tuttiInvalidArgument);
  assert_int_equal(pncclCommWindowDeregister(comms[0], NULL), tuttiSuccess);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &first, 4), tuttiInvalidArgument);
  comms_end(2);
  comms_make(1); /* windows go with their communicator: there is always room for another's */
  for (int w = 0; w < 1500; w++) {
    if (w % 500 == 0 && w) comms_end(1);
    if (w % 500 == 0 && w) comms_make(1);
    assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &first, 0), tuttiSuccess);
  }
  for (int w = 500; w < 1024; w++)
    assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &first, 0), tuttiSuccess);
  assert_int_equal(pncclCommWindowRegister(comms[0], buffer, 100, &first, 0), tuttiSystemError);
  comms_end(1);
}

static void properties_say_that_kernels_cannot_communicate(void **state)
{
  struct {
    ncclCommProperties_t known;
    uint64_t newer;
  } told;
  (void)state;
  comms_make(2);
  memset(&told, 0x81, sizeof told);
  told.known.size = sizeof told;
  told.known.magic = NCCL_CONFIG_MAGIC;
  told.known.version = 23102;
  assert_int_equal(pncclCommQueryProperties(comms[1], &told.known), tuttiSuccess);
  assert_true(told.known.rank == 1 && told.known.nRanks == 2 && told.known.cudaDev == 1 && told.known.nLsaTeams == 2);
  assert_true(!told.known.deviceApiSupport && !told.known.multimemSupport && !told.known.hostRmaSupport);
  assert_true(told.known.ginType == 0 && told.known.railedGinType == 0 && told.newer == 0);
  memset(&told, 0x81, sizeof told);
  told.known.size = offsetof(ncclCommProperties_t, nLsaTeams);
  told.known.magic = NCCL_CONFIG_MAGIC;
  assert_int_equal(pncclCommQueryProperties(comms[0], &told.known), tuttiSuccess);
  assert_true(told.known.ginType == 0 && told.known.nLsaTeams == (int)0x81818181);
  told.known.magic = 0;
  assert_int_equal(pncclCommQueryProperties(comms[0], &told.known), tuttiInvalidArgument);
  assert_true(says("NCCL_COMM_PROPERTIES_INITIALIZER"));
  comms_end(2);
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

static long driver_calls(const struct driver *cu, int report)
{
  char line[256];
  long calls = -1;
  assert_int_equal(ftruncate(report, 0), 0);
  cu->report();
  FILE *file = fdopen(dup(report), "r");
  assert_non_null(file);
  rewind(file);
  while (fgets(line, sizeof line, file)) sscanf(line, "%*d sum calls %ld", &calls);
  fclose(file);
  return calls;
}

/* Last: the driver stays loaded. */
static void device_memory_travels_on_cuda_streams(void **state)
{
  (void)state;
  struct driver cu;
  void *context, *stream, *memory = NULL, *window_memory = NULL, *handle = &cu, *host = NULL;
  char path[64];
  int report = memfd_create("report", 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", report);
  setenv("FAKE_REPORT", path, 1);
  assert_null(driver_load(&cu, CUDA_DOUBLE));
  assert_true(!cu.cuInit(0) && !cu.cuDevicePrimaryCtxRetain(&context, 0) && !cu.cuCtxSetCurrent(context));
  assert_true(!cu.cuStreamCreate(&stream, 1) && !cu.cuMemHostAlloc(&host, 64, 3));
  uint32_t *words = host;
  memset(words, 0, 64);
  comms_make(1);
  assert_int_equal(pncclMemAlloc(&memory, 4), tuttiSuccess);
  unsigned kind = 0;
  assert_true(!cu.cuPointerGetAttribute(&kind, 2, (uintptr_t)memory) && kind == 2);
  assert_true(!cu.cuMemsetD32Async((uintptr_t)memory, 7, 1, stream));
  assert_true(!cu.cuStreamWaitValue32_v2(stream, (uintptr_t)words, 1, 0)); /* the stream is held: calls return */
  assert_int_equal(pncclAllReduce(memory, memory, 1, tuttiInt, tuttiSum, comms[0], stream), tuttiSuccess);
  assert_int_equal(pncclGroupStart(), tuttiSuccess);
  assert_int_equal(pncclSend(memory, 1, tuttiInt, 0, comms[0], stream), tuttiSuccess);
  assert_int_equal(pncclRecv(words + 2, 1, tuttiInt, 0, comms[0], stream), tuttiSuccess);
  assert_int_equal(pncclGroupEnd(), tuttiSuccess);
  assert_int_equal(cu.cuStreamQuery(stream), 600);
  __atomic_store_n(words, 1, __ATOMIC_SEQ_CST);
  assert_true(!cu.cuStreamSynchronize(stream) && words[2] == 7);
  ncclRedOp_t op; /* times what the memory of the GPU has when it starts; nothing of it is read for no elements */
  assert_int_equal(pncclRedOpCreatePreMulSum(&op, memory, tuttiInt, 0, comms[0]), tuttiSuccess);
  for (size_t count = 0; count < 2; count++)
    assert_int_equal(pncclAllReduce(memory, words + 2, count, tuttiInt, op, comms[0], stream), tuttiSuccess);
  assert_true(!cu.cuStreamSynchronize(stream) && words[2] == 49);
  long calls = driver_calls(&cu, report);
  assert_int_equal(pncclCommRegister(comms[0], memory, 4, &handle), tuttiSuccess);
  assert_null(handle);
  assert_true(calls > 0 && driver_calls(&cu, report) == calls); /* programs register all that they have */
  ncclWindow_t window = NULL;
  assert_int_equal(pncclCommWindowRegister(comms[0], memory, 4, &window, 0), tuttiSuccess);
  assert_int_equal(pncclWinGetUserPtr(comms[0], window, &window_memory), tuttiSuccess);
  assert_true(window_memory == memory && pncclCommWindowDeregister(comms[0], window) == tuttiSuccess);
  comms_end(1);
  assert_int_equal(pncclMemFree(memory), tuttiSuccess);
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
      cmocka_unit_test(later_names_that_cannot_work_say_so),
      cmocka_unit_test(there_are_no_parameters_of_nccl),
      cmocka_unit_test(ranks_of_one_process_have_devices),
      cmocka_unit_test(after_a_refusal_nothing_of_the_group_starts),
      cmocka_unit_test(without_blocking_init_does_not_wait),
      cmocka_unit_test(a_parent_is_in_progress_until_its_child_is_ready),
      cmocka_unit_test(a_child_that_is_aborted_frees_its_parent),
      cmocka_unit_test(after_a_revoke_the_state_is_success_and_launches_are_refused),
      cmocka_unit_test(a_suspended_communicator_takes_no_operations_until_it_is_resumed),
      cmocka_unit_test(a_registration_succeeds_with_a_null_handle),
      cmocka_unit_test(a_window_knows_its_pointer_while_it_lives),
      cmocka_unit_test(properties_say_that_kernels_cannot_communicate),
      cmocka_unit_test(teams_are_arithmetic),
      cmocka_unit_test(device_memory_travels_on_cuda_streams),
  };
  alarm(100);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
