/* SPDX-License-Identifier: BSD-3-Clause */
/* Log lines and error sentences.
 *
 * An error is logged once, where its cause is first known, by tt_fail: it keeps the
 * sentence for tuttiGetLastError, logs it at WARN and returns the code. Callers
 * pass the code on without another log line. */
#ifndef TT_BASE_LOG_H
#define TT_BASE_LOG_H

#include "tutti.h"

#define TT_SENTENCE_BYTES 512 /* longest error sentence with its NUL */

/* ASKED: another setting asked for the line, so it is written for any TUTTI_DEBUG; its text begins with a word of its
 * own in the place of the level. */
enum tt_log_level { TT_LOG_ASKED = -1, TT_LOG_NONE, TT_LOG_VERSION, TT_LOG_WARN, TT_LOG_INFO, TT_LOG_TRACE };

/* Writes "host:pid:tid TUTTI LEVEL text" to TUTTI_DEBUG_FILE or stderr in one
 * write(2), if TUTTI_DEBUG is at least `level`. Any thread. No newline in text. */
void tt_log(enum tt_log_level level, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* True if a line of this level would be written; for lines that are expensive to make. */
int tt_log_wants(enum tt_log_level level);

/* Lines go to this function instead, and no line is written to the one before when it returns; NULL: none. */
void tt_log_set(void (*function)(void *context, const char *level, const char *sentence), void *context);

/* Keeps the sentence for the calling thread, logs it, returns `code`. */
tuttiResult_t tt_fail(tuttiResult_t code, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The same without a log line: for a sentence that was logged elsewhere already. */
tuttiResult_t tt_fail_quiet(tuttiResult_t code, const char *sentence);

/* tuttiInvalidArgument: the argument of this name is NULL. */
tuttiResult_t tt_null(const char *name);

/* The calling thread's last sentence, "" if none. */
const char *tt_last_sentence(void);

#endif
