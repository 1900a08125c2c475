/* SPDX-License-Identifier: BSD-3-Clause */
/* The main thread of a process, as /proc shows it, also of one in a container. */
#include "status/status.h"

#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* Reads a file of /proc/PID; "" if it may not be read. */
static void file_read(pid_t pid, const char *name, char *text, size_t size)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
  FILE *file = fopen(path, "re");
  size_t n = file ? fread(text, 1, size - 1, file) : 0;
  text[n] = 0;
  if (file) fclose(file);
}

/* 1: the process numbered `here` has this number in the PID namespace. The last number of its line NSpid is that. */
static int is_process(pid_t here, uint64_t namespace, pid_t pid)
{
  char path[64], text[4096];
  struct stat its;
  snprintf(path, sizeof path, "/proc/%d/ns/pid", (int)here);
  if (stat(path, &its) != 0 || (uint64_t)its.st_ino != namespace) return 0;
  file_read(here, "status", text, sizeof text);
  char *line = strstr(text, "\nNSpid:"), *end = line ? strchr(line + 1, '\n') : NULL;
  if (!end) return 0;
  *end = 0;
  char *number = strrchr(line, '\t');
  return number && atoi(number + 1) == (int)pid;
}

pid_t tt_process_here(uint64_t namespace, pid_t pid)
{
  pid_t found = 0;
  if (!namespace || namespace == tt_pid_namespace()) return namespace ? pid : 0;
  DIR *folder = opendir("/proc");
  if (!folder) return 0;
  for (const struct dirent *at; !found && (at = readdir(folder)) != NULL;) {
    pid_t here = isdigit((unsigned char)at->d_name[0]) ? (pid_t)atoi(at->d_name) : 0;
    if (here && is_process(here, namespace, pid)) found = here;
  }
  closedir(folder);
  return found;
}

/* The system calls in which programs wait for something. */
static const char *syscall_name(long number)
{
  switch (number) {
  case SYS_read: return "read";
  case SYS_write: return "write";
  case SYS_futex: return "futex";
  case SYS_ppoll: return "ppoll";
  case SYS_pselect6: return "pselect6";
  case SYS_epoll_pwait: return "epoll_pwait";
  case SYS_nanosleep: return "nanosleep";
  case SYS_clock_nanosleep: return "clock_nanosleep";
  case SYS_recvfrom: return "recvfrom";
  case SYS_recvmsg: return "recvmsg";
  case SYS_sendto: return "sendto";
  case SYS_sendmsg: return "sendmsg";
  case SYS_accept: return "accept";
  case SYS_accept4: return "accept4";
  case SYS_connect: return "connect";
  case SYS_wait4: return "wait4";
  case SYS_waitid: return "waitid";
  case SYS_flock: return "flock";
  case SYS_fcntl: return "fcntl";
  case SYS_fsync: return "fsync";
  case SYS_openat: return "openat";
  case SYS_rt_sigtimedwait: return "sigtimedwait";
  case SYS_rt_sigsuspend: return "sigsuspend";
  case SYS_ioctl: return "ioctl";
#ifdef SYS_poll
  case SYS_poll: return "poll";
  case SYS_select: return "select";
  case SYS_epoll_wait: return "epoll_wait";
  case SYS_pause: return "pause";
#endif
  default: return NULL;
  }
}

/* Where it sleeps: "futex", or with the kernel's function, "futex (futex_wait_queue)". */
static void where_read(struct tt_main_thread *thread, pid_t pid)
{
  char call[32], function[32], *end;
  file_read(pid, "syscall", call, sizeof call);
  file_read(pid, "wchan", function, sizeof function);
  long number = strtol(call, &end, 10);
  const char *name = end != call ? syscall_name(number) : NULL;
  int has_function = function[0] && strcmp(function, "0") != 0;
  if (name) snprintf(thread->where, sizeof thread->where, "%s", name);
  else if (end != call && number >= 0) snprintf(thread->where, sizeof thread->where, "system call %ld", number);
  size_t used = strlen(thread->where);
  if (has_function)
    snprintf(thread->where + used, sizeof thread->where - used, used ? " (%s)" : "%s", function);
}

void tt_main_thread_read(struct tt_main_thread *thread, pid_t pid, uint64_t start)
{
  char stat[512];
  memset(thread, 0, sizeof *thread);
  enum tt_life life = tt_process_life(pid, start);
  if (life == TT_LIFE_DEAD) thread->state = 'X';
  if (life == TT_LIFE_DEAD || life == TT_LIFE_UNKNOWN) return;
  file_read(pid, "stat", stat, sizeof stat);
  const char *name_end = strrchr(stat, ')'); /* the name may have parentheses */
  thread->state = name_end && name_end[1] == ' ' ? name_end[2] : 0;
  if (thread->state == 'S' || thread->state == 'D') where_read(thread, pid);
}

const char *tt_main_thread_text(const struct tt_rank_status *rank, char *text, size_t size)
{
  const struct tt_main_thread *thread = &rank->thread;
  switch (thread->state) {
  case 'S':
  case 'D':
    snprintf(text, size, "it is alive, its main thread sleeps%s%s", thread->where[0] ? " in " : "", thread->where);
    break;
  case 'T':
    snprintf(text, size, "it is stopped (state T), and `kill -CONT %d` lets it go on", (int)rank->pid);
    break;
  case 't': snprintf(text, size, "it is held by a debugger (state t)"); break;
  case 'X': snprintf(text, size, "its process has ended"); break;
  case 0:
    snprintf(text, size, rank->seen == TT_SEEN_HERE ? "its process cannot be seen from here"
                                                    : "it is on %s, where `tutti status` can see it", rank->host);
    break;
  default: snprintf(text, size, "it is alive, its main thread is running");
  }
  return text;
}
