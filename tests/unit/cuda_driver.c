/* SPDX-License-Identifier: BSD-3-Clause */
/* src/cuda/driver_private.h has the names and numbers of the driver's own header, where that is at hand; and what is
 * said where there is no driver.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cuda/cuda.h"
#include "cuda/driver_private.h"
#include "fake_driver.h"

#if defined(__has_include)
#if __has_include(<cuda.h>)
#include <cuda.h>
#endif
#endif

#ifdef CUDA_VERSION
#define TEXT(name) #name
#define NAME(name) TEXT(name) /* with the version that the header gives it */

static void names_and_numbers_are_those_of_the_drivers_header(void **state)
{
  (void)state;
  static const int pairs[][2] = {
      {CU_SUCCESS, CUDA_SUCCESS}, {CU_INVALID_VALUE, CUDA_ERROR_INVALID_VALUE},
      {CU_OUT_OF_MEMORY, CUDA_ERROR_OUT_OF_MEMORY}, {CU_NOT_INITIALIZED, CUDA_ERROR_NOT_INITIALIZED},
      {CU_DEINITIALIZED, CUDA_ERROR_DEINITIALIZED}, {CU_NO_DEVICE, CUDA_ERROR_NO_DEVICE},
      {CU_INVALID_CONTEXT, CUDA_ERROR_INVALID_CONTEXT}, {CU_NO_BINARY_FOR_GPU, CUDA_ERROR_NO_BINARY_FOR_GPU},
      {CU_UNSUPPORTED_PTX_VERSION, CUDA_ERROR_UNSUPPORTED_PTX_VERSION}, {CU_NOT_FOUND, CUDA_ERROR_NOT_FOUND},
      {CU_NOT_READY, CUDA_ERROR_NOT_READY}, {CU_POINTER_CONTEXT, CU_POINTER_ATTRIBUTE_CONTEXT},
      {CU_POINTER_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_MEMORY_TYPE},
      {CU_POINTER_IS_MANAGED, CU_POINTER_ATTRIBUTE_IS_MANAGED},
      {CU_POINTER_DEVICE_ORDINAL, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL}, {CU_MEMORY_DEVICE, CU_MEMORYTYPE_DEVICE},
      {CU_STREAM_NON_BLOCKING_FLAG, CU_STREAM_NON_BLOCKING}, {CU_EVENT_DISABLE_TIMING_FLAG, CU_EVENT_DISABLE_TIMING},
      {CU_DMA_BUF, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD},
      {CU_HOST_PORTABLE_AND_MAPPED, CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP}};
  static const char *const names[][2] = {
      {NAME(cuDevicePrimaryCtxRelease), "cuDevicePrimaryCtxRelease_v2"},
      {NAME(cuCtxPushCurrent), "cuCtxPushCurrent_v2"}, {NAME(cuCtxPopCurrent), "cuCtxPopCurrent_v2"},
      {NAME(cuMemGetHandleForAddressRange), "cuMemGetHandleForAddressRange"},
      {NAME(cuStreamDestroy), "cuStreamDestroy_v2"}, {NAME(cuEventDestroy), "cuEventDestroy_v2"},
      {NAME(cuMemcpyAsync), "cuMemcpyAsync"}, {NAME(cuEventRecord), "cuEventRecord"},
      {NAME(cuLaunchKernel), "cuLaunchKernel"}, {NAME(cuStreamSynchronize), "cuStreamSynchronize"},
      {NAME(cuCtxGetDevice), "cuCtxGetDevice"}, {NAME(cuPointerGetAttributes), "cuPointerGetAttributes"}};
  for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) assert_int_equal(pairs[i][0], pairs[i][1]);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) assert_string_equal(names[i][0], names[i][1]);
  assert_int_equal(sizeof(CUdeviceptr), sizeof(uint64_t));
  assert_int_equal(sizeof(CUdevice), sizeof(int));
  assert_int_equal(sizeof(CUresult), sizeof(int));
  assert_int_equal(sizeof(CUpointer_attribute), sizeof(int));
}

/* Never called: it compiles if the header's functions take what driver.h gives them. */
static __attribute__((unused)) void functions_take_what_they_are_given(void *any, int *number, uint64_t *pointer,
                                                                       size_t len)
{
  CUdeviceptr *deviceptr = (CUdeviceptr *)(void *)pointer;
  (void)sizeof(cuDevicePrimaryCtxRetain((CUcontext *)any, *number));
  (void)sizeof(cuMemGetHandleForAddressRange(any, *deviceptr, len, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0ull));
  (void)sizeof(cuMemcpyAsync(*deviceptr, *deviceptr, len, (CUstream)any));
  (void)sizeof(cuStreamCreate((CUstream *)any, 1u));
  (void)sizeof(cuEventCreate((CUevent *)any, 2u));
  (void)sizeof(cuEventRecord((CUevent)any, (CUstream)any));
  (void)sizeof(cuPointerGetAttributes(5u, (CUpointer_attribute *)any, (void **)any, *deviceptr));
  (void)sizeof(cuModuleLoadData((CUmodule *)any, any));
  (void)sizeof(cuModuleGetFunction((CUfunction *)any, (CUmodule)any, (const char *)any));
  (void)sizeof(cuLaunchKernel((CUfunction)any, 1u, 1u, 1u, 1u, 1u, 1u, 0u, (CUstream)any, (void **)any, (void **)any));
}
#else
static void names_and_numbers_are_those_of_the_drivers_header(void **state)
{
  (void)state;
  printf("no cuda.h\n");
  skip();
}
#endif

static struct tt_settings settings_with(const char *value)
{
  struct tt_settings settings;
  setenv("TUTTI_CUDA", value, 1);
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  unsetenv("TUTTI_CUDA");
  return settings;
}

/* Before the double is loaded. A host that has a driver cannot show it. */
static void without_a_driver_host_memory_is_all_there_is(void **state)
{
  (void)state;
  struct cuda_driver driver;
  char text[256] = "";
  struct tt_settings automatic = settings_with("auto"), asked = settings_with("1");
  int joined = 7;
  if (tt_cuda_driver_open(&driver, 1, text, sizeof text)) {
    tt_cuda_driver_close(&driver);
    printf("this host has a driver\n");
    skip();
  }
  assert_non_null(strstr(text, "libcuda.so.1"));
  assert_int_equal(tt_cuda_join(&automatic, &joined), tuttiSuccess);
  assert_false(tt_cuda_has(text));
  if (joined) tt_cuda_leave();
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(tt_cuda_join(&asked, &joined), tuttiInvalidUsage);
  assert_int_equal(joined, 0);
  assert_non_null(strstr(tt_last_sentence(), "TUTTI_CUDA is 1"));
  assert_non_null(strstr(tt_last_sentence(), "libcuda.so.1"));
  assert_non_null(strstr(tt_cuda_unusable(&automatic, text, sizeof text), "libcuda.so.1"));
}

static int knows(const struct fake_cuda *fake)
{
  char *memory = fake->alloc(1, FAKE_DEVICE, 10);
  int known = tt_cuda_has(memory + 9);
  fake->free(memory);
  return known;
}

static void memory_is_known_while_somebody_has_joined(void **state)
{
  (void)state;
  const struct fake_cuda *fake = fake_driver_load();
  struct tt_settings automatic = settings_with("auto"), never = settings_with("0"), asked = settings_with("1");
  int first, second, third;
  assert_non_null(fake);
  assert_int_equal(tt_cuda_join(&never, &first), tuttiSuccess);
  assert_false(knows(fake));
  assert_int_equal(tt_cuda_join(&automatic, &second), tuttiSuccess);
  assert_true(knows(fake));
  assert_int_equal(tt_cuda_join(&asked, &third), tuttiSuccess);
  tt_cuda_leave();
  tt_cuda_leave();
  assert_true(knows(fake)); /* whoever is left may be asking at this moment */
  tt_cuda_leave();
  assert_false(knows(fake));
  assert_true(first && second && third);
  assert_true(fake_driver_is_clean());
}

static void what_there_is_is_told(void **state)
{
  (void)state;
  char text[256] = "";
  struct tt_settings automatic = settings_with("auto"), never = settings_with("0");
  const struct fake_cuda *fake = fake_driver_load();
  assert_null(tt_cuda_unusable(&automatic, text, sizeof text));
  assert_non_null(strstr(text, "2 GPUs"));
  assert_non_null(strstr(tt_cuda_unusable(&never, text, sizeof text), "TUTTI_CUDA is 0"));
  fake->fail_at(1, 999);
  assert_non_null(strstr(tt_cuda_unusable(&automatic, text, sizeof text), "trouble made for a test"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(names_and_numbers_are_those_of_the_drivers_header),
      cmocka_unit_test(without_a_driver_host_memory_is_all_there_is),
      cmocka_unit_test(memory_is_known_while_somebody_has_joined),
      cmocka_unit_test(what_there_is_is_told),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
