/* SPDX-License-Identifier: BSD-3-Clause */
/* The one writable global: everything that a process has once. A test checks that there is
 * no other. Each field names the upper folder that owns it. */
#ifndef TT_BASE_PROCESS_H
#define TT_BASE_PROCESS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

#include "tutti.h"

#define TT_PROCESS_SOCKETS 4096
#define TT_IDS_KEPT 2048

/* More than 25 fields: everything that belongs to the process as a whole is kept here, some slots for each folder. */
struct tt_process {
  _Atomic uint32_t communicators; /* made so far */
  pthread_mutex_t mutex;          /* guards the slots below while they are made or freed */
  pthread_once_t once;
  _Atomic int installed;          /* the fork handler is installed */
  _Atomic int membarrier;         /* the kernel can fence all threads of the process at once */
  _Atomic int forked;             /* set in a forked child: every call there is an error */
  int copies_in_pieces;           /* memcpy is slow for long copies (base/copy.h); set once */
  _Atomic int log_level;          /* enum tt_log_level + 1; 0: not read yet */
  _Atomic int log_file;           /* descriptor + 1; 0: not opened yet */
  pthread_rwlock_t log_lock;      /* guards the next two; read while a line is written */
  void (*log_function)(void *context, const char *level, const char *sentence); /* NULL: none (tuttiSetLog) */
  void *log_context;
  _Atomic int unknown_warned;
  _Atomic int auth_warned;        /* bootstrap: the warning about TUTTI_AUTH=none was given */
  _Atomic uint64_t name_ns;       /* bootstrap: how long the name of rank 0's host was waited for, until a start-up has
                                   * taken that off its limit */
  _Atomic int profile_warned;     /* comm: the warning that the profile was measured on a busy machine was given */
  _Atomic int fork_warned;        /* transport: the warning that ibv_fork_init failed was given */
  _Atomic long alloc_countdown;
  void *_Atomic timeline;         /* base: the trace that is written (TUTTI_TIMELINE), kept to the end; NULL: none */
  void *service;                  /* net: the service thread and its listeners */
  void *progress;                 /* comm: the progress threads of streams */
  void *meetings;                 /* comm: of ranks of one communicator on one GPU; guarded by `mutex` */
  void *metrics;                  /* comm: counts for Prometheus (TUTTI_METRICS), kept to the end; NULL: none */
  void *launch;                   /* bootstrap: answer of the launcher */
  void *watches;                  /* watch: those of this process; guarded by the service lock */
  void *roots;                    /* bootstrap: the open roots; guarded by the service lock */
  uint64_t ids[TT_IDS_KEPT];      /* bootstrap: ids that ranks of this process have used; the oldest is overwritten */
  uint32_t ids_used;              /* bootstrap: number of ids used so far; guarded, like ids, by `mutex` */
  pthread_mutex_t heap_mutex;     /* memory: guards the next two; held for long while pages are made */
  void *heap;                     /* memory: memory of tuttiMemAlloc; NULL: not needed yet */
  void *heap_views;               /* memory: heaps of peers that are mapped */
  _Atomic uint64_t memory_asked;  /* memory: bytes of shared memory allocated so far; 0: the next one looks */
  pthread_mutex_t cuda_mutex;     /* cuda: guards the next three while they are made or freed */
  void *cuda_kept;                /* cuda: what GPUs still used when the last communicator ended: for the next */
  int cuda_users;                 /* cuda: communicators; `cuda` is freed with the last one */
  void *_Atomic cuda;             /* cuda: the driver and the objects made per context; NULL: not met yet */
  const void *_Atomic kernels;    /* reduce: the table in use; NULL: not chosen yet */
  _Atomic size_t cache_len;       /* reduce: bytes of the last cache; 0: not read yet */
  const void *_Atomic machine;    /* topo: the hardware, read once and kept */
  const void *_Atomic profile;    /* profile: the profile that is built in, read once and kept */
  _Atomic uint64_t sockets[TT_PROCESS_SOCKETS]; /* net: names of sockets, at descriptor % room; 0: none */
  void *outboxes;                 /* transport: shared outboxes of the ranks in this process */
};

extern struct tt_process tt_process;

/* Installs the fork handler and asks for cheap fences, once. Every public entry calls it. */
void tt_process_install(void);
static inline void tt_process_enter(void)
{
  if (!atomic_load_explicit(&tt_process.installed, memory_order_acquire)) tt_process_install();
}

/* The error of a forked child, tuttiInvalidUsage. */
tuttiResult_t tt_process_refuse(void);

/* tt_process_enter, and that error. Every call that touches shared state begins with it. */
static inline tuttiResult_t tt_process_check(void)
{
  tt_process_enter();
  if (!atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return tuttiSuccess;
  return tt_process_refuse();
}

/* Makes forked children close this socket, so that it ends with this process even if children live on. A socket that is
 * closed earlier needs no call. If there are more sockets than room, children keep some of them. */
void tt_process_socket(int fd);

/* If two threads each store a word and then load the other's, they must not both miss the other's store. The frequent
 * side stores with tt_light_store, the rare side calls tt_heavy_fence between its store and its load. Where the kernel
 * can interrupt all threads for the rare side (membarrier), the frequent side needs no fence. */
static inline void tt_light_store(_Atomic int *word, int value)
{
  if (atomic_load_explicit(&tt_process.membarrier, memory_order_relaxed))
    atomic_store_explicit(word, value, memory_order_relaxed);
  else
    atomic_store(word, value);
}
void tt_heavy_fence(void);

#endif
