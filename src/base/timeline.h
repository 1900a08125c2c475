/* SPDX-License-Identifier: BSD-3-Clause */
/* The time line of this process as a trace that Perfetto and chrome://tracing open (TUTTI_TIMELINE).
 *
 * A trace is a JSON array of events, one a line. Spans go through a buffer, and each write ends with the "]" that the
 * next write overwrites, so the file can be read at any time. A thread of its own, "tutti-timeline", writes the buffer
 * until the process ends; if the process is killed, the file lacks at most the last quarter of a second. A process is a
 * rank: its number is the rank that it had in its first communicator, its label the host. Times are those of
 * CLOCK_MONOTONIC, so traces of one host's ranks can be merged (`tutti timeline merge`). */
#ifndef TT_BASE_TIMELINE_H
#define TT_BASE_TIMELINE_H

#include <stdatomic.h>
#include <stdint.h>

#include "base/process.h"

/* 0: no trace is written, and no other function here need be called. */
static inline int tt_timeline_wanted(void)
{
  return atomic_load_explicit(&tt_process.timeline, memory_order_relaxed) != NULL;
}

#define TT_TIMELINE_TEXT_BYTES 128  /* of a track or name with its NUL; the rest is cut off */
#define TT_TIMELINE_ARGS_BYTES 1024 /* of args with their NUL; longer ones are left out as a whole */
#define TT_TIMELINE_TRACKS 256      /* all further tracks share one, "other" */

struct tt_span {
  const char *track, *name;  /* the row, and the text on it; ASCII: other bytes become '?' */
  uint64_t begin_ns, end_ns; /* of tt_now_ns. Spans of a track contain each other or do not overlap */
  const char *args;          /* members of a JSON object, without braces, e.g. "\"bytes\":8"; NULL: none */
  const char *cat;           /* its category: "call" of a program, "fusion", or "internal": the library's own */
};

/* Adds a copy of a span. Any thread, at any time; does nothing where no trace is written or in a forked child. Takes
 * about a microsecond, or as long as a write of up to 64 KiB if one is under way or the buffer is full. If the file
 * cannot be written, there is one warning and the file ends there: tracing never ends a run. */
void tt_timeline_add(const struct tt_span *span);

/* Opens the trace of this process if it is not open: `file` is TUTTI_TIMELINE, with %r, %h and %p for rank, host and
 * pid. A file with none of them gets ".RANK" before its suffix if there are several ranks. The file is emptied. It
 * stays open until the process ends, and is also written then.
 *
 * Errors: tuttiSystemError: the file cannot be opened or another process is writing it, out of memory, or no thread.
 * tuttiInvalidArgument: the file's name is too long. */
tuttiResult_t tt_timeline_open(const char *file, int rank, int nranks);

/* Writes the buffer to the file. */
void tt_timeline_flush(void);

#endif
