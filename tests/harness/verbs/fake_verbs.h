/* SPDX-License-Identifier: BSD-3-Clause */
/* libibverbs.so.1 and librdmacm.so.1 without a device, for tests: a test is linked with them, or finds them through
 * LD_LIBRARY_PATH, and whoever loads a library of that name then gets these. (Tutti looks for devices in /sys before it
 * loads a library: so somebody else has to load these first, as the harness does if FAKE_VERBS is set, or LD_PRELOAD.)
 * Device fake0 (and fake1, with two ports) speaks RoCE v2 between queue pairs of one process, of processes forked from
 * it, and of all that name the same file in FAKE_VERBS_SEGMENT. It is as unkind as a device may be:
 * - data moves some time after it was posted, on a thread of its own, in drawn order between queue pairs; the sender's
 *   completion comes some time after that. Until then a destination may hold garbage (`scribble`);
 * - places in queues are free again only when a completion is polled; a completion that tells of an error has nothing
 *   but its status, number and vendor code; those of a queue pair that is gone still come;
 * - any verb can be made to fail, any work request to end with any status; ports go down, the device goes away.
 * What the contract of verbs forbids and a device would not always notice is a breach, counted and told on stderr: a
 * source that changes before its completion, memory deregistered under a transfer, a full completion queue, objects
 * destroyed while others use them, events never acknowledged. Any thread.
 * A file named by FAKE_VERBS_SEGMENT begins anew when no process is left that has opened it.
 * What it cannot do: pages do not stay with a registration whose memory is unmapped. */
#ifndef FAKE_VERBS_H
#define FAKE_VERBS_H

#include <stdatomic.h>

/* Settings: name, default, meaning. All may be changed at any time, in all processes at once. FAKE_VERBS in the
 * environment sets them for who begins with it: "seed=7,delay_us=100". */
#define FAKE_SETTINGS(X)                                                                       \
  X(devices, 1)       /* 0 .. 2 */                                                             \
  X(seed, 0)          /* of what is done when; 0: at once, in the order in which it was posted */ \
  X(delay_us, 0)      /* at most, before data moves, and again before the sender knows; needs a seed */ \
  X(scribble, 0)      /* 1: garbage in destinations from when a transfer is posted until data comes */ \
  X(hold, 0)          /* bits; 1: no data moves, 2: no sender's completion comes. As long as they are set */ \
  X(port_down, 0)     /* see port() */                                                         \
  X(removed, 0)       /* see remove() */                                                       \
  X(memlock, 1L << 40) /* bytes that a process may register */                                 \
  X(memlock_of, 0)    /* the process for which that holds; 0: all */                           \
  X(early, 0)         /* 1: a source may change once its data has arrived; else not before its completion */ \
  X(fatal, 0)         /* 1: a breach ends the process */                                       \
  X(max_inline, 256)  /* at most 256 */                                                        \
  X(max_sge, 4)       /* at most 4 */                                                          \
  X(max_qp_wr, 1024)  /* at most 1024 */                                                       \
  X(max_cqe, 8192)    /* at most 8192 */                                                       \
  X(fail_at, 0)       /* the n-th call of a verb from now on fails; 0: none. See break_at() */     \
  X(fail_errno, 5)    /* with this */                                                          \
  X(send_at, 0)       /* the n-th work request from now on that sends ends with send_status */ \
  X(send_status, 12)  /* enum ibv_wc_status */                                                 \
  X(recv_at, 0)       /* the same for receives */                                              \
  X(recv_status, 12)

struct fake_settings {
#define X(name, value) _Atomic long name;
  FAKE_SETTINGS(X)
#undef X
};

struct fake_verbs_counts {
  long calls;    /* of verbs that can fail */
  long contexts, pds, regions, channels, cqs, qps, ids, id_channels; /* alive */
  long registered; /* bytes, now */
  long sends, receives, inlines; /* posted */
  long copied;     /* bytes that have moved */
  long longest;    /* bytes of the longest write that has */
  long overtaken;  /* work that was done before older work of another queue pair */
  long not_ready;  /* found no receive posted */
  long polls;      /* of completion queues */
  long notified;   /* events that completions have sent to channels */
  long breaches;
};

struct fake_verbs {
  struct fake_settings *settings;
  void (*reset)(void); /* settings as in the beginning, calls and breaches forgotten, and what killed processes had */
  struct fake_verbs_counts (*count)(void); /* of all processes together */
  /* The n-th call of `verb` (NULL: of any) from now on fails with `code`, after doing its work if it frees something;
   * n 0: none. */
  void (*break_at)(const char *verb, long n, int code);
  const char *(*failed)(void); /* the verb that has done so, "": none yet */
  void (*port)(int is_up);     /* and all who have the device open get the event; no data moves while it is down */
  void (*remove)(void);        /* the device: its event, then nothing moves, and all verbs but those that free fail */
  int (*is_clean)(void);       /* nothing is alive and there was no breach: 1; else tells what is */
};

/* Of libibverbs.so.1. */
const struct fake_verbs *fake_verbs(void);

#endif
