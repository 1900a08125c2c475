/* SPDX-License-Identifier: BSD-3-Clause */
/* NCCL's parameters: there are none, because NCCL_* variables have no effect. So the list of keys is empty, every key
 * is unknown, and no handle is valid. */
#include "nccl/shim.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of functions that only refuse */

static ncclResult_t unknown(const char *key)
{
  return tt_nccl_refuse(tuttiInvalidArgument, "key \"%s\" is unknown: no parameter of NCCL has an effect here; those "
                                              "of Tutti are told by `tutti info`", key ? key : "(NULL)");
}

static ncclResult_t no_handle(ncclParamHandle_t handle)
{
  return tt_nccl_refuse(tuttiInvalidArgument, "handle %p was not made by ncclParamBind", (void *)handle);
}

ncclResult_t pncclParamBind(ncclParamHandle_t *handle, const char *key)
{
  return unknown(key);
}
NCCL_WEAK_NAME(ncclParamBind);

ncclResult_t pncclParamGetI8(ncclParamHandle_t handle, int8_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetI8);

ncclResult_t pncclParamGetI16(ncclParamHandle_t handle, int16_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetI16);

ncclResult_t pncclParamGetI32(ncclParamHandle_t handle, int32_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetI32);

ncclResult_t pncclParamGetI64(ncclParamHandle_t handle, int64_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetI64);

ncclResult_t pncclParamGetU8(ncclParamHandle_t handle, uint8_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetU8);

ncclResult_t pncclParamGetU16(ncclParamHandle_t handle, uint16_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetU16);

ncclResult_t pncclParamGetU32(ncclParamHandle_t handle, uint32_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetU32);

ncclResult_t pncclParamGetU64(ncclParamHandle_t handle, uint64_t *value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetU64);

ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char **value)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGetStr);

ncclResult_t pncclParamGet(ncclParamHandle_t handle, void *value, int room, int *len)
{
  return no_handle(handle);
}
NCCL_WEAK_NAME(ncclParamGet);

ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *len)
{
  if (value) *value = NULL;
  if (len) *len = 0;
  return unknown(key);
}
NCCL_WEAK_NAME(ncclParamGetParameter);

ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *count)
{
  static const char *const none[1];
  if (!table || !count)
    return tt_nccl_refuse(tuttiInvalidArgument, "%s is NULL: pass a valid pointer", table ? "tableLen" : "table");
  *table = (const char **)(uintptr_t)none;
  *count = 0;
  return tuttiSuccess;
}
NCCL_WEAK_NAME(ncclParamGetAllParameterKeys);

void pncclParamDumpAll(void)
{
}
NCCL_WEAK_NAME(ncclParamDumpAll);
