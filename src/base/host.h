/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts about this host and its processes. */
#ifndef TT_BASE_HOST_H
#define TT_BASE_HOST_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define TT_HOST_NAME_BYTES 64

/* Processes with equal ids can share memory: a hash of boot id, host name and
 * network namespace, or of `override` (TUTTI_HOSTID) if that is not NULL or "". */
uint64_t tt_host_id(const char *override);

/* Processes with equal ids run under one kernel, on the same cores, even if their host ids differ (containers, network
 * namespaces): a hash of the boot id; 0 if unknown. */
uint64_t tt_kernel_id(void);

/* Host name, cut to TT_HOST_NAME_BYTES. */
void tt_host_name(char name[TT_HOST_NAME_BYTES]);

/* The name of the processors, without double quotes, '#' and control characters, cut to size; else "unknown". */
void tt_host_cpu(char *name, size_t size);

/* The id of the installation: a hash of /etc/machine-id, which no boot changes; 0 if unknown. */
uint64_t tt_machine_id(void);

/* A hash of a text, continued from another hash (or from 0). */
uint64_t tt_text_hash(uint64_t hash, const char *text);

/* Cores this process may run on; at least 1. */
int tt_host_cores(void);

/* Those cores as a bit mask: core c is bit c % 8 of byte c / 8. Cores beyond its end wrap around to bit 0. */
#define TT_CORE_MASK_BYTES 128
void tt_host_core_mask(uint8_t mask[TT_CORE_MASK_BYTES]);

/* The inode of this process's PID namespace, 0 if unknown. */
uint64_t tt_pid_namespace(void);

enum tt_life {
  TT_LIFE_ALIVE,
  TT_LIFE_DEAD,    /* gone, zombie, or exiting (memory may still be being freed) */
  TT_LIFE_FROZEN,  /* stopped by a signal: state T */
  TT_LIFE_TRACED,  /* held by a debugger: state t */
  TT_LIFE_UNKNOWN  /* /proc cannot tell */
};

/* Start time of a process in clock ticks since boot, 0 if unknown; together with the pid
 * it identifies a process for good. */
uint64_t tt_process_start(pid_t pid);

/* Reads /proc/<pid>/stat; a process of another start time is another process. */
enum tt_life tt_process_life(pid_t pid, uint64_t start);

/* A descriptor that can be read once this process has ended (a pidfd, from Linux 5.3 on); -1: it has ended already, the
 * kernel has none, or there is no descriptor left. */
int tt_process_end_fd(pid_t pid, uint64_t start);

#endif
