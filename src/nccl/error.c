/* SPDX-License-Identifier: BSD-3-Clause */
/* Results and their sentences, and the version. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "nccl/shim.h"

/* Copies the sentence with the names that the program knows: tuttiCommSplit becomes ncclCommSplit. */
static void rename_functions(char *out, size_t size, const char *in)
{
  size_t used = 0;
  while (*in && used + 1 < size) {
    if (strncmp(in, "tutti", 5) == 0 && in[5] >= 'A' && in[5] <= 'Z' && used + 4 < size) {
      memcpy(out + used, "nccl", 4);
      used += 4;
      in += 5;
    } else {
      out[used++] = *in++;
    }
  }
  out[used] = 0;
}

ncclResult_t tt_nccl_remember(ncclResult_t code)
{
  const char *sentence = tuttiGetLastError(NULL);
  pthread_mutex_lock(&tt_nccl_process.error_mutex);
  rename_functions(tt_nccl_process.sentence, sizeof tt_nccl_process.sentence, sentence);
  pthread_mutex_unlock(&tt_nccl_process.error_mutex);
  return code;
}

ncclResult_t tt_nccl_refuse(ncclResult_t code, const char *format, ...)
{
  char sentence[TT_NCCL_SENTENCE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  return tt_nccl_remember(tuttiRefuse(code, sentence));
}

/* Like NCCL's, this function looks at no communicator, so one that is freed does no harm. The text is the calling
 * thread's until it asks again. */
const char *pncclGetLastError(ncclComm_t comm)
{
  static _Thread_local char told[TT_NCCL_SENTENCE_BYTES];
  (void)comm;
  pthread_mutex_lock(&tt_nccl_process.error_mutex);
  memcpy(told, tt_nccl_process.sentence, sizeof told);
  pthread_mutex_unlock(&tt_nccl_process.error_mutex);
  return told;
}
NCCL_WEAK_NAME(ncclGetLastError);

/* Programs and people search for NCCL's words, so these come first. */
const char *pncclGetErrorString(ncclResult_t result)
{
  switch ((int)result) {
  case tuttiSuccess: return "no error";
  case tuttiUnhandledCudaError: return "unhandled cuda error (ncclGetLastError says more)";
  case tuttiSystemError: return "unhandled system error (ncclGetLastError says more)";
  case tuttiInternalError: return "internal error - please report what ncclGetLastError says to the Tutti developers";
  case tuttiInvalidArgument: return "invalid argument (ncclGetLastError says more)";
  case tuttiInvalidUsage: return "invalid usage (ncclGetLastError says more)";
  case tuttiRemoteError: return "remote process exited or there was a network error";
  case tuttiInProgress: return "NCCL operation in progress";
  case NCCL_TIMEOUT: return "timeout";
  default: return "unknown result code";
  }
}
NCCL_WEAK_NAME(ncclGetErrorString);

/* The version of the interface, not of Tutti, because programs choose their calls by it. */
ncclResult_t pncclGetVersion(int *version)
{
  if (!version) return tt_nccl_refuse(tuttiInvalidArgument, "version is NULL: pass a valid pointer");
  *version = NCCL_VERSION_CODE;
  return tuttiSuccess;
}
NCCL_WEAK_NAME(ncclGetVersion);

/* NCCL reads NCCL_DEBUG again here; Tutti keeps its log level, which TUTTI_DEBUG sets. */
void ncclResetDebugInitInternal(void)
{
}

void pncclResetDebugInit(void)
{
  ncclResetDebugInitInternal();
}
NCCL_WEAK_NAME(ncclResetDebugInit);
