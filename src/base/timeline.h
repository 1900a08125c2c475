/* SPDX-License-Identifier: BSD-3-Clause */
/* The time line of this process as a trace that Perfetto and chrome://tracing open (TUTTI_TIMELINE).
 *
 * A trace is a JSON array of events, one a line. Spans go through a buffer, and each write ends with the "]" that the
 * next one overwrites: so the file can be read at any time. If the process is killed it lacks what was not written yet,
 * at most the last quarter of a second: a thread of its own, "tutti-timeline", sees to that to the process's end. A
 * process is a rank: its number is that of the rank that it had in its first communicator. Times are those of
 * CLOCK_MONOTONIC, so traces of one host's ranks can be joined. */
#ifndef TT_BASE_TIMELINE_H
#define TT_BASE_TIMELINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/process.h"

/* 0: no trace is written, and nothing else here need be called. */
static inline int tt_timeline_wanted(void)
{
  return atomic_load_explicit(&tt_process.timeline, memory_order_relaxed) != NULL;
}

#define TT_TIMELINE_TEXT_BYTES 128  /* of a track or name with its NUL; the rest is cut off */
#define TT_TIMELINE_ARGS_BYTES 1024 /* likewise, but longer args are left out as a whole */
#define TT_TIMELINE_TRACKS 256      /* all further ones are one, "other" */

struct tt_span {
  const char *track, *name;  /* the row, and what is written on it; ASCII: of other bytes '?' is left */
  uint64_t begin_ns, end_ns; /* of tt_now_ns. Spans of a track contain each other or do not overlap */
  const char *args;          /* members of a JSON object, without braces, e.g. "\"bytes\":8"; NULL: none */
};

/* Adds a span; copies all of it. Any thread, at any time, also where no trace is written or a child was forked: then it
 * does nothing. Takes about a microsecond, or a write of up to 64 KiB where one is under way or the buffer is full. A
 * file that cannot be written is warned of once, and ends there: tracing never ends a run. */
void tt_timeline_add(const struct tt_span *span);

/* Opens the trace of this process, if it is not open: `file` is TUTTI_TIMELINE, with %r, %h and %p for rank, host and
 * pid. A file with none of them gets ".RANK" before its suffix where there are several ranks. It is emptied. It stays
 * open to the process's end, and is written then, too.
 *
 * Errors: tuttiSystemError: it cannot be opened or another process is writing it, out of memory, or no thread.
 * tuttiInvalidArgument: it is too long. */
tuttiResult_t tt_timeline_open(const char *file, int rank, int nranks);

/* Writes what is in the buffer. */
void tt_timeline_flush(void);

#endif
