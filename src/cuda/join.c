/* SPDX-License-Identifier: BSD-3-Clause */
/* Joining and leaving the process's use of CUDA. */
#include <stdio.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "cuda/cuda_private.h"

static tuttiResult_t cuda_make(struct cuda **out, int asked)
{
  char why[256];
  struct cuda *cuda = tt_alloc(1, sizeof *cuda);
  if (!cuda) return tt_fail(tuttiSystemError, "out of memory for the use of CUDA");
  tuttiResult_t result = tuttiSuccess;
  if (!tt_cuda_driver_open(&cuda->driver, asked, why, sizeof why)) {
    if (asked)
      result = tt_fail(tuttiInvalidUsage, "TUTTI_CUDA is 1, but %s: install NVIDIA's driver, or leave it on auto", why);
    else tt_log(TT_LOG_INFO, "no CUDA memory: %s", why);
    tt_free(cuda);
    return result;
  }
  int code = asked ? cuda->driver.init(0) : CU_SUCCESS;
  if (code != CU_SUCCESS) {
    result = tt_cuda_fail(&cuda->driver, "cuInit", -1, code);
    tt_cuda_driver_close(&cuda->driver);
    tt_free(cuda);
    return result;
  }
  pthread_mutex_init(&cuda->making, NULL);
  *out = cuda;
  return tuttiSuccess;
}

/* Slots of streams that are still parked stay, with all that their release needs: it is kept for the next communicator
 * while a GPU may still use memory of it. */
static void cuda_free(struct cuda *cuda)
{
  if (!tt_cuda_retired_free(cuda)) {
    tt_process.cuda_kept = cuda;
    return;
  }
  for (int ordinal = 0; ordinal < CUDA_GPUS; ordinal++)
    if (atomic_load(&cuda->primary[ordinal])) cuda->driver.primary_release(ordinal);
  tt_cuda_driver_close(&cuda->driver);
  pthread_mutex_destroy(&cuda->making);
  tt_free(cuda);
}

/* Makes CUDA memory known if the driver is there. The mutex is held. */
static tuttiResult_t meet(int asked)
{
  struct cuda *cuda = tt_process.cuda_kept;
  if (tt_process.cuda) return tuttiSuccess;
  tt_process.cuda_kept = NULL;
  tuttiResult_t result = cuda ? tuttiSuccess : cuda_make(&cuda, asked);
  if (result != tuttiSuccess || !cuda) return result;
  tt_process.cuda = cuda;
  return result;
}

enum choice { CHOICE_AUTO, CHOICE_NEVER, CHOICE_ASKED }; /* of TUTTI_CUDA */

/* Communicators that find no CUDA are counted, too: later ones may find it, and then the earlier ones ask it about
 * their pointers as well. */
tuttiResult_t tt_cuda_join(const struct tt_settings *settings, int *joined)
{
  tuttiResult_t result = tuttiSuccess;
  *joined = 0;
  pthread_mutex_lock(&tt_process.cuda_mutex);
  if (settings->cuda != CHOICE_NEVER) result = meet(settings->cuda == CHOICE_ASKED);
  if (result == tuttiSuccess) {
    tt_process.cuda_users++;
    *joined = 1;
  }
  pthread_mutex_unlock(&tt_process.cuda_mutex);
  return result;
}

void tt_cuda_leave(void)
{
  pthread_mutex_lock(&tt_process.cuda_mutex);
  struct cuda *cuda = tt_process.cuda;
  if (--tt_process.cuda_users == 0 && cuda) {
    tt_process.cuda = NULL;
    cuda_free(cuda);
  }
  pthread_mutex_unlock(&tt_process.cuda_mutex);
}

/* Opens the driver, starts it and counts GPUs; then it is open. 0: it is not, and `why` tells the reason. */
static int driver_start(struct cuda_driver *driver, int loads, char *why, size_t size)
{
  int count = 0;
  if (!tt_cuda_driver_open(driver, loads, why, size)) return 0;
  int code = driver->init(0);
  if (code == CU_SUCCESS) code = driver->device_count(&count);
  if (code == CU_SUCCESS && count) return count;
  if (code == CU_SUCCESS) snprintf(why, size, "the driver finds no GPU");
  else snprintf(why, size, "the driver does not start: %s (CUDA error %d)", tt_cuda_text(driver, code), code);
  tt_cuda_driver_close(driver);
  return 0;
}

const char *tt_cuda_unusable(const struct tt_settings *settings, char *text, size_t size)
{
  struct cuda_driver driver;
  int version = 0;
  if (settings->cuda == CHOICE_NEVER) return "TUTTI_CUDA is 0";
  int count = driver_start(&driver, 1, text, size);
  if (!count) return text;
  driver.version(&version); /* it has none to fail by, once it has started */
  snprintf(text, size, "%d GPU%s, driver for CUDA %d.%d", count, count == 1 ? "" : "s", version / 1000,
           version % 1000 / 10);
  tt_cuda_driver_close(&driver);
  return NULL;
}

/* The kernel's interface to a GPU. */
static int machine_has_gpu(void)
{
  static const char *const paths[] = {"/dev/nvidiactl", "/dev/dxg", "/dev/nvgpu", "/dev/nvhost-gpu"};
  int has = 0;
  for (size_t p = 0; p < sizeof paths / sizeof *paths; p++) has |= access(paths[p], F_OK) == 0;
  return has;
}

int tt_cuda_start(const struct tt_settings *settings)
{
  struct cuda_driver driver;
  char why[256];
  int loads = settings->cuda == CHOICE_ASKED || machine_has_gpu();
  return settings->cuda == CHOICE_NEVER ? 0 : driver_start(&driver, loads, why, sizeof why);
}
