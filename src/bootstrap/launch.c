/* SPDX-License-Identifier: BSD-3-Clause */
/* tuttiGetLaunch: finds the launcher and gets the id from it, once per process. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "bootstrap/launch_private.h"

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL)

/* Hangs on tt_process.launch. It has its own mutex because asking a launcher may take long and needs tt_process.mutex
 * itself. */
struct launch {
  pthread_mutex_t mutex;
  int known;
  tuttiLaunch_t answer;
};

/* ---- the descriptor of `tutti run` ----------------------------------------------------------- */

static tuttiResult_t descriptor_fill(int fd, const tuttiUniqueId *id)
{
  ssize_t n = tt_file_write(fd, id, sizeof *id, -1);
  if (n == (ssize_t)sizeof *id && fcntl(fd, F_ADD_SEALS, SEALS) == 0) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "the launch descriptor cannot be written and sealed: %s%s", strerror(errno),
                 errno == EFBIG ? " (see `ulimit -f`)" : "");
}

tuttiResult_t tt_launch_id_fd(const tuttiUniqueId *id, int *fd)
{
  int made = memfd_create("tutti-launch", MFD_ALLOW_SEALING);
  if (made < 0)
    return tt_fail(tuttiSystemError, "no descriptor for the launch: memfd_create: %s", strerror(errno));
  tuttiResult_t result = descriptor_fill(made, id);
  if (result != tuttiSuccess) {
    close(made);
    return result;
  }
  *fd = made;
  return tuttiSuccess;
}

static tuttiResult_t descriptor_read(int fd, tuttiUniqueId *id)
{
  struct stat status;
  if (fstat(fd, &status) != 0)
    return tt_fail(tuttiInvalidArgument,
                   "TUTTI_LAUNCH_FD is %d, which is not open: something between `tutti run` and this "
                   "program closes inherited descriptors",
                   fd);
  int seals = fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & SEALS) != SEALS || status.st_size != (off_t)sizeof *id ||
      pread(fd, id, sizeof *id, 0) != (ssize_t)sizeof *id)
    return tt_fail(tuttiInvalidArgument, "TUTTI_LAUNCH_FD is %d, which is not a descriptor of `tutti run`", fd);
  /* The descriptor holds the key, and programs that this one starts have no use for it. */
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return tuttiSuccess;
}

static tuttiResult_t descriptor_id(int fd, tuttiUniqueId *id)
{
  struct tt_id checked;
  tuttiUniqueId got;
  tuttiResult_t result = descriptor_read(fd, &got);
  if (result == tuttiSuccess) result = tt_id_unpack(&checked, &got);
  if (result == tuttiSuccess) *id = got;
  tt_wipe(&checked, sizeof checked);
  return result;
}

/* ---- asking ------------------------------------------------------------------------------------ */

static const char *environment(const void *owner, const char *name)
{
  (void)owner;
  return tt_env(name);
}

/* Debian's /etc/hosts has the host's own name at 127.0.1.1. A loopback address is meant as it is written. */
static void loopback_warn(const struct tt_launch_plan *plan, const struct tt_address *root)
{
  char text[TT_ADDRESS_TEXT_BYTES];
  const char *name = plan->address;
  if (plan->proc != 0 || plan->nprocs <= plan->local_nprocs || !tt_address_is_loopback(root)) return;
  if (*name == '[' || strncmp(name, "127.", 4) == 0 || strstr(name, "localhost")) return;
  tt_log(TT_LOG_WARN,
         "\"%s\" (TUTTI_COMM_ID or MASTER_ADDR) is %s on the host of rank 0, where ranks of other hosts cannot reach "
         "it: give an address of the network, such as the first one of `hostname -I`, or correct /etc/hosts",
         name, tt_address_text(root, text, sizeof text));
}

static tuttiResult_t made_id(tuttiUniqueId *out, const struct tt_launch_plan *plan, const struct tt_settings *settings)
{
  struct tt_id id;
  int is_fixed = plan->address[0] != 0;
  tuttiResult_t result = is_fixed ? tt_id_fixed(&id, plan->address, settings) : tt_id_create(&id, settings);
  if (result != tuttiSuccess) return result;
  if (is_fixed) loopback_warn(plan, &id.root);
  tt_id_pack(&id, out);
  tt_wipe(&id, sizeof id);
  return tuttiSuccess;
}

static tuttiResult_t plan_follow(tuttiLaunch_t *launch, const struct tt_launch_plan *plan,
                                 const struct tt_settings *settings)
{
  static const char *const names[] = {"none", "tutti", "comm_id", "pmix", "pmi", "torchrun"};
  snprintf(launch->launcher, sizeof launch->launcher, "%s", names[plan->launcher]);
  launch->nprocs = plan->nprocs;
  launch->proc = plan->proc;
  launch->local_nprocs = plan->local_nprocs;
  launch->local_proc = plan->local_proc;
  switch (plan->launcher) {
  case TT_LAUNCHER_TUTTI: return descriptor_id(plan->fd, &launch->id);
  case TT_LAUNCHER_PMIX: return tt_launch_pmix(launch, settings);
  case TT_LAUNCHER_PMI: return tt_launch_pmi(launch, plan->fd, settings);
  default: return made_id(&launch->id, plan, settings);
  }
}

static tuttiResult_t ask(tuttiLaunch_t *launch)
{
  struct tt_settings settings;
  struct tt_launch_plan plan;
  tuttiResult_t result = tt_settings_load(&settings);
  if (result == tuttiSuccess) result = tt_launch_plan(&plan, &settings, environment, NULL);
  if (result == tuttiSuccess) result = plan_follow(launch, &plan, &settings);
  if (result == tuttiSuccess)
    tt_log(TT_LOG_INFO, "launcher %s: process %d of %d, %d of %d on this host", launch->launcher,
           launch->proc, launch->nprocs, launch->local_proc, launch->local_nprocs);
  return result;
}

static struct launch *launch_slot(void)
{
  pthread_mutex_lock(&tt_process.mutex);
  if (!tt_process.launch) {
    struct launch *made = tt_alloc(1, sizeof *made);
    if (made) pthread_mutex_init(&made->mutex, NULL);
    tt_process.launch = made;
  }
  struct launch *slot = tt_process.launch;
  pthread_mutex_unlock(&tt_process.mutex);
  return slot;
}

tuttiResult_t tt_launch_get(tuttiLaunch_t *launch)
{
  struct launch *slot = launch_slot();
  if (!slot) return tt_fail(tuttiSystemError, "no memory for the launcher's answer");
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&slot->mutex);
  if (!slot->known) {
    tuttiLaunch_t asked;
    memset(&asked, 0, sizeof asked);
    result = ask(&asked);
    if (result == tuttiSuccess) {
      slot->answer = asked;
      slot->known = 1;
    }
  }
  if (result == tuttiSuccess) *launch = slot->answer;
  pthread_mutex_unlock(&slot->mutex);
  return result;
}
