/* SPDX-License-Identifier: BSD-3-Clause */
/* A program of NCCL with memory of GPUs, of nccl.h and the CUDA driver alone: what its files share.
 *
 * A team is what one thread of the program drives: one rank, or all ranks of the process (ncclCommInitAll). All teams
 * draw the same jobs from one seed; whatever is a rank's own affair (streams, events, when a stream is held) is drawn
 * from another. */
#ifndef GPU_CLIENT_H
#define GPU_CLIENT_H

#include "driver_load.h"
#include "gpu_nccl.h"

#define RANKS 8
#define JOBS 4     /* under way at once */
#define STREAMS 5  /* 0, 1 (legacy), 2 (of the thread), and two of the rank's own */
#define WORDS 64   /* pinned, for held streams and counts */

enum mode { PROCESSES, THREADS, ALL };

struct options {
  const char *nccl, *driver;
  const char *hosts; /* network namespaces HOSTS-0, HOSTS-1, ..., one for each rank; NULL: the one of the program */
  const char *cut;   /* the command that cuts the last one off */
  enum mode mode;
  int nranks, gpus, rounds, limit_s, has_only_own_streams, is_sealed, may_hold, has_host_ids, draws_host, is_early;
  int operations; /* of a graph */
  size_t slot, most; /* bytes around which sizes are drawn, and the largest share */
  uint64_t seed;
};

/* What the ranks share: pages that outlive fork. */
struct meeting {
  int arrived, round;
  ncclUniqueId id;
  int is_dead; /* a rank is gone on purpose: nobody waits for it */
};

struct rank {
  int number, gpu;
  ncclComm_t comm;
  void *context, *streams[STREAMS], *side, *events[2 * JOBS];
  void *fill, *add, *check, *spin; /* kernels */
  uint64_t in, out, want; /* memory of the GPU, `room` bytes each */
  size_t room;
  unsigned char *host_in, *host_out; /* the same in pinned memory of the host */
  unsigned char *stage; /* pinned, for what is copied into them and into `want` */
  uint32_t *words;
};

struct team {
  const struct options *options;
  struct meeting *meeting;
  struct rank ranks[RANKS];
  int count;
  int may_hold;
  uint64_t common, own; /* to draw from */
};

extern struct driver cu;
extern struct nccl nccl;

/* Ends the program with a line that tells the trial under way. */
void lost(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
void trial_name(const char *format, ...) __attribute__((format(printf, 1, 2)));
void deadline(int seconds); /* of the process: after it, lost */

void cu_ok(int code, const char *call);
void nccl_ok(int code, const char *call);
#define CU(call) cu_ok(cu.call, #call)
#define NCCL(call) nccl_ok(nccl.call, #call)

uint64_t drawn(uint64_t *state, uint64_t below);
double seconds_now(void);
void meet(const struct team *team); /* all ranks */
void enter_gpu(const struct rank *rank); /* makes its context current */
void launch(const struct rank *rank, void *kernel, void *stream, void **params);
void word_set(uint32_t *word, uint32_t value);

/* gpu_jobs.c: drawn collectives */
void jobs_run(struct team *team);
void jobs_round(struct team *team, int round);

/* gpu_cases.c */
void capture_run(struct team *team);
void storm_run(struct team *team);
void comms_run(struct team *team);
void speed_run(struct team *team);
void processes_only(const struct team *team, const char *name);

/* gpu_ends.c */
void abort_run(struct team *team);
void kill_run(struct team *team);
void trap_run(struct team *team);
void shrink_run(struct team *team);
void outage_run(struct team *team);
void mismatch_run(struct team *team);

#endif
