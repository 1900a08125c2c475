/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

#include "base/copy.h"
#include "base/log.h"

#include <linux/membarrier.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tt_process tt_process = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .cuda_mutex = PTHREAD_MUTEX_INITIALIZER,
    .heap_mutex = PTHREAD_MUTEX_INITIALIZER, .log_lock = PTHREAD_RWLOCK_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* A name that identifies the socket while it lives: descriptor and inode; 0: fd is no socket. */
static uint64_t socket_name(int fd)
{
  struct stat status;
  if (fstat(fd, &status) != 0 || !S_ISSOCK(status.st_mode)) return 0;
  return (uint64_t)fd << 32 | (uint32_t)status.st_ino;
}

void tt_process_socket(int fd)
{
  atomic_store_explicit(&tt_process.sockets[fd % TT_PROCESS_SOCKETS], socket_name(fd), memory_order_relaxed);
}

static void sockets_close(void)
{
  for (int i = 0; i < TT_PROCESS_SOCKETS; i++) {
    uint64_t name = atomic_load_explicit(&tt_process.sockets[i], memory_order_relaxed);
    if (name && socket_name((int)(name >> 32)) == name) close((int)(name >> 32));
  }
}

/* Does only what is allowed after fork in a process of several threads. */
static void mark_child(void)
{
  atomic_store(&tt_process.forked, 1);
  sockets_close();
}

/* It is called when the library is loaded: most processes have one thread then, and it takes 30 us. With more threads
 * the kernel waits until all processors have been in it, which takes 15 ms. Forked children inherit it. */
__attribute__((constructor)) static void membarrier_register(void)
{
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
    atomic_store(&tt_process.membarrier, 1);
}

static void install(void)
{
  pthread_atfork(0, 0, mark_child);
  tt_process.copies_in_pieces = tt_memcpy_is_slow();
  atomic_store_explicit(&tt_process.installed, 1, memory_order_release);
}

void tt_process_install(void)
{
  pthread_once(&tt_process.once, install);
}

tuttiResult_t tt_process_refuse(void)
{
  return tt_fail(tuttiInvalidUsage, "this process is a forked child of one that uses Tutti: "
                                    "call it in the parent only, or exec a program first");
}

void tt_heavy_fence(void)
{
  if (atomic_load(&tt_process.membarrier)) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
