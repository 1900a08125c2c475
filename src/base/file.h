/* SPDX-License-Identifier: BSD-3-Clause */
/* Files that the user has named for the library to write: log, trace and time line; and protection from the signal of
 * a limit on their length. */
#ifndef TT_BASE_FILE_H
#define TT_BASE_FILE_H

#include <signal.h>
#include <stddef.h>
#include <sys/types.h>

#include "tutti.h"

/* Opens a file for writing, created with mode 0600 if it is not there; flags: O_APPEND or 0. Another user may have put
 * a symbolic link in its place to make us overwrite a file of ours, so links are not followed, except /dev/stdout,
 * /dev/stderr and descriptors (/dev/fd/63, as shells name the pipe of `>(command)`). -1 and errno on failure. */
int tt_file_open(const char *name, int flags);

/* 1 if the name is that of a device or pipe, such as /dev/null, which all ranks may write to. */
int tt_file_is_special(const char *name);

#define TT_FILE_NAME_BYTES 512

/* Makes a file's name from a pattern, the value of `setting`: %r, %h and %p are rank, host and pid. A name with none of
 * them gets ".RANK" before its suffix if there are several ranks, but not that of a device or pipe, such as /dev/null.
 * Errors: tuttiInvalidArgument: it is too long. */
tuttiResult_t tt_file_name(char name[TT_FILE_NAME_BYTES], const char *setting, const char *pattern, int rank,
                           int nranks);

/* A phrase that says why tt_file_open failed with `error`; it lives for ever. */
const char *tt_file_why(int error);

/* As write (at < 0) or pwrite; a write beyond `ulimit -f` fails with EFBIG, and nothing else happens. */
ssize_t tt_file_write(int fd, const void *data, size_t len, off_t at);

/* Beyond `ulimit -f` write, ftruncate and fallocate fail with EFBIG and send the calling thread SIGXFSZ, which ends a
 * process that did not expect it. Between these two they only fail. The second keeps errno. */
void tt_file_limit_begin(sigset_t *before);
void tt_file_limit_end(const sigset_t *before);

#endif
