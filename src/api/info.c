/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti_tools.h. */
#include "tutti_tools.h"

#include <string.h>

#include "bootstrap/bootstrap.h"
#include "comm/comm.h"
#include "cuda/cuda.h"

tuttiResult_t tuttiInfo(FILE *out, int json)
{
  if (!out) return tt_null("out");
  struct tt_settings settings;
  tuttiResult_t result = tt_settings_load(&settings);
  return result == tuttiSuccess ? tt_info_list(out, json, &settings) : result;
}

tuttiResult_t tuttiCudaStart(int *gpus)
{
  struct tt_settings settings;
  if (!gpus) return tt_null("gpus");
  tuttiResult_t result = tt_settings_load(&settings);
  *gpus = result == tuttiSuccess ? tt_cuda_start(&settings) : 0;
  return result;
}

tuttiResult_t tuttiCommGetInfo(tuttiComm_t comm, tuttiCommInfo_t *info)
{
  tuttiResult_t result = tt_comm_made_check(comm);
  if (result == tuttiSuccess && !info) result = tt_null("info");
  if (result == tuttiSuccess && info->size < offsetof(tuttiCommInfo_t, nhosts))
    result = tt_fail(tuttiInvalidArgument, "info->size is %zu: set it to sizeof(tuttiCommInfo_t) first", info->size);
  if (result != tuttiSuccess) return result;
  size_t size = info->size;
  tuttiCommInfo_t whole = {.size = size};
  tt_comm_info(comm, &whole);
  memset(info, 0, size);
  memcpy(info, &whole, size < sizeof whole ? size : sizeof whole);
  return tuttiSuccess;
}

tuttiResult_t tuttiCommGetTransport(tuttiComm_t comm, int peer, const char **name)
{
  if (!name) return tt_null("name");
  tuttiResult_t result = tt_comm_made_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "questions for transports");
  if (result != tuttiSuccess) return result;
  int last = tt_comm_facts(comm)->nranks - 1;
  if (peer < 0 || peer > last)
    return tt_fail(tuttiInvalidArgument, "peer is %d: it must be from 0 to nranks - 1 = %d", peer, last);
  *name = tt_comm_transport(comm, tt_comm_route(comm, peer))->name;
  return tuttiSuccess;
}

tuttiResult_t tuttiCommGetAlgorithm(tuttiComm_t comm, const char *collective, uint64_t bytes, char *text, size_t size)
{
  char names[TT_KIND_NAMES_BYTES];
  if (!collective) return tt_null("collective");
  if (!text) return tt_null("text");
  if (size < TUTTI_ALGORITHM_BYTES)
    return tt_fail(tuttiInvalidArgument, "size is %zu: give text TUTTI_ALGORITHM_BYTES (%d) bytes", size,
                   TUTTI_ALGORITHM_BYTES);
  tuttiResult_t result = tt_comm_made_check(comm);
  if (result != tuttiSuccess) return result;
  int kind = tt_kind_find(collective);
  if (kind == TT_NO_COLLECTIVE)
    return tt_fail(tuttiInvalidArgument, "collective is '%.40s': it must be one of %s", collective,
                   tt_kind_names(names, sizeof names));
  tt_comm_algorithm(comm, kind, bytes, text);
  return tuttiSuccess;
}

tuttiResult_t tuttiTypeSize(tuttiDataType_t type, size_t *size)
{
  if (!size) return tt_null("size");
  if (!tt_type_size((int)type))
    return tt_fail(tuttiInvalidArgument, "type is %d: it must be from 0 to %d", (int)type, tuttiNumTypes - 1);
  *size = tt_type_size((int)type);
  return tuttiSuccess;
}

const char *tuttiTypeName(tuttiDataType_t type)
{
  return tt_type_name((int)type);
}

const char *tuttiRedOpName(tuttiRedOp_t op)
{
  return tt_redop_name((int)op >= tuttiNumOps ? TT_PREMUL_SUM : (int)op);
}

tuttiResult_t tuttiSetLog(tuttiLogFunction_t function, void *context)
{
  tuttiResult_t result = tt_process_check();
  if (result == tuttiSuccess) tt_log_set(function, context);
  return result;
}

tuttiResult_t tuttiLaunchDescriptor(const tuttiUniqueId *id, int *fd)
{
  if (!id) return tt_null("id");
  if (!fd) return tt_null("fd");
  return tt_launch_id_fd(id, fd);
}

tuttiResult_t tuttiLaunchJoins(const tuttiUniqueId *ids, int n, int *fd)
{
  if (!ids) return tt_null("ids");
  if (!fd) return tt_null("fd");
  if (n < 1 || n > TUTTI_RESTARTS)
    return tt_fail(tuttiInvalidArgument, "n is %d: it must be from 1 to %d", n, TUTTI_RESTARTS);
  return tt_joins_make(ids, n, fd);
}

tuttiResult_t tuttiLaunchRunning(int fd, const int *restarts, int n, int *can_join)
{
  if (!restarts) return tt_null("restarts");
  if (!can_join) return tt_null("can_join");
  if (n < 0) return tt_fail(tuttiInvalidArgument, "n is %d: it must be at least 0", n);
  return tt_joins_running(fd, restarts, n, can_join);
}

tuttiResult_t tuttiLaunchEnded(const tuttiUniqueId *id, int proc, int nprocs, int pid, int status)
{
  struct tt_id unpacked;
  tuttiResult_t result = tt_process_check();
  if (result == tuttiSuccess && !id) result = tt_null("id");
  if (result == tuttiSuccess && (proc < 0 || proc >= nprocs))
    result = tt_fail(tuttiInvalidArgument, "proc is %d: it must be from 0 to nprocs - 1 = %d", proc, nprocs - 1);
  if (result == tuttiSuccess) result = tt_id_unpack(&unpacked, id);
  if (result != tuttiSuccess) return result;
  const struct tt_ended ended = {.proc = proc, .nprocs = nprocs, .pid = pid, .status = status};
  tt_id_ended(&unpacked, &ended);
  tt_wipe(&unpacked, sizeof unpacked);
  return tuttiSuccess;
}

tuttiResult_t tuttiReadSize(const char *text, size_t *size)
{
  uint64_t bytes;
  if (!text || !size || !tt_bytes_read(&text, &bytes) || *text || bytes > SIZE_MAX / 4) return tuttiInvalidArgument;
  *size = (size_t)bytes;
  return tuttiSuccess;
}

tuttiResult_t tuttiRefuse(tuttiResult_t code, const char *sentence)
{
  if (!sentence) return tt_null("sentence");
  if (code <= tuttiSuccess || code >= tuttiInProgress)
    return tt_fail(tuttiInvalidArgument, "code is %d: a refusal needs an error, from 1 to %d", (int)code,
                   tuttiInProgress - 1);
  return tt_group_refuse(tt_fail(code, "%s", sentence));
}
