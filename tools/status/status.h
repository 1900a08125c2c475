/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks at running jobs from another process of the same user (tutti status). Their status pages are found through
 * /proc/PID/fd and mapped read-only (watch/page.h), so that nothing in the job has to answer: it may hang, or be
 * stopped. */
#ifndef TT_TOOLS_STATUS_H
#define TT_TOOLS_STATUS_H

#include <stdio.h>

#include "watch/page.h"

#define TT_JUDGED_BYTES 2048
#define TT_RANK_NAME_BYTES 128

enum tt_seen {
  TT_SEEN_NOT,  /* nothing is known of the rank */
  TT_SEEN_HERE, /* it is on this host, or was: the page has its words */
  TT_SEEN_AFAR  /* it is on another host, and a rank of this one hears it */
};

/* The main thread of a rank's process. */
struct tt_main_thread {
  char state;     /* as in /proc: 'R', 'S', 'D', 'T', 't'; 'X': the process has ended; 0: not known */
  char where[64]; /* of one that sleeps: system call, and the kernel's function; "": not known */
};

/* The state of one rank. */
struct tt_rank_status {
  int32_t rank, pid;          /* pid: as it is seen from here, if the process is */
  char host[TT_HOST_NAME_BYTES];
  enum tt_seen seen;
  struct tt_main_thread thread;
  uint64_t entered, finished; /* numbers of its last operations */
  struct tt_call call;        /* number `entered`; collective TT_NO_COLLECTIVE: only the number is known */
  int is_inside;
  uint64_t age_ns;            /* since it entered that call, or has ended it; 0: not known */
  struct tt_call next;        /* number entered + 1, as another rank of the page has entered it; op 0: none has */
  uint64_t next_ns;           /* since the first of these entered it */
  int32_t unlike;             /* a rank whose call of the same number is another one; -1: none */
  int nalike;                 /* ranks that made the same call of that number, with itself */
  struct tt_call other;       /* the call of `unlike` */
  int32_t waits_for;          /* the rank that has to do its part of a message first; -1: none */
  int sends;                  /* that message goes to this rank */
  uint64_t moves, beat;       /* change when bytes move; when its process runs */
  struct tt_lacks lacks;      /* of a fusion: what it has not pushed; step 0: nothing, or not known */
  uint64_t gone, lost;        /* words of the page, see tt_gone_make and tt_lost_make */
};

/* The state of one communicator, as one status page shows it. */
struct tt_comm_status {
  char label[96];
  int is_second; /* it is a fusion's, or of a layer above the library, not of the program */
  int nranks, nhosts;
  int32_t host; /* the lowest rank of the page's host */
  struct tt_rank_status *ranks; /* nranks */
  int has_failed, goes_on; /* goes_on: a failure does not end it */
  struct tt_failure failure;
  struct tt_call_count totals[TT_COLLECTIVES]; /* of the lowest rank of the page's host */
};

/* ---- find.c: pages ---- */

struct tt_pages {
  int n, room;
  struct tt_found_page {
    uint64_t device, inode;
    struct tt_page page;
    void *map;
    size_t len;
  } *pages;
  int nclosed; /* processes that may use Tutti, but may not be looked into */
  int nother;  /* descriptors of pages of another version of the library */
};

/* Finds the pages of one process (pid > 0), of all processes of this user (0), or of all (-1). Errors:
 * tuttiSystemError: no memory, or no /proc. */
tuttiResult_t tt_pages_find(struct tt_pages *pages, pid_t pid);
void tt_pages_close(struct tt_pages *pages);

/* ---- look.c ---- */

/* Copies what a page shows now. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_status_take(struct tt_comm_status *status, const struct tt_page *page);
void tt_status_destroy(struct tt_comm_status *status); /* zeroed ones are allowed */

/* ---- thread.c ---- */

/* The number that a process of another PID namespace has here; 0: it cannot be seen from here. */
pid_t tt_process_here(uint64_t namespace, pid_t pid);

/* Looks up the main thread of a process in /proc; start as tt_process_start. */
void tt_main_thread_read(struct tt_main_thread *thread, pid_t pid, uint64_t start);

/* "it is alive, its main thread sleeps in clock_nanosleep (hrtimer_nanosleep)"; returns text. */
const char *tt_main_thread_text(const struct tt_rank_status *rank, char *text, size_t size);

/* ---- verdict.c: pure ---- */

/* One sentence: what the communicator is doing or, if it hangs, which rank is to blame. `before` is the same
 * communicator a moment earlier. Returns 1 if it has failed, or waits for a rank. */
int tt_status_judge(const struct tt_comm_status *before, const struct tt_comm_status *now,
                    char text[TT_JUDGED_BYTES]);

/* "rank 3 (pid 4711 on node-a)"; returns text. */
const char *tt_status_rank_name(const struct tt_rank_status *rank, char text[TT_RANK_NAME_BYTES]);

/* "0.2 s", "41 s", "3 min", "2 h"; returns text. */
#define TT_AGE_BYTES 32
const char *tt_age_text(uint64_t ns, char text[TT_AGE_BYTES]);

/* ---- print.c ---- */

void tt_status_print(FILE *out, const struct tt_comm_status *status, const char *verdict);

/* An object of JSON. */
void tt_status_json(FILE *out, const struct tt_comm_status *status, const char *verdict);

#endif
