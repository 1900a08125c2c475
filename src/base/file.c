/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/host.h"
#include "base/log.h"

/* 1 if the name is that of a descriptor: only the kernel and root make these links. */
static int is_stream(const char *name)
{
  static const char *const folders[] = {"/dev/fd/", "/proc/self/fd/"};
  for (size_t f = 0; f < sizeof folders / sizeof folders[0]; f++)
    if (strncmp(name, folders[f], strlen(folders[f])) == 0) return !strchr(name + strlen(folders[f]), '/');
  return strcmp(name, "/dev/stdout") == 0 || strcmp(name, "/dev/stderr") == 0;
}

int tt_file_open(const char *name, int flags)
{
  return open(name, O_WRONLY | O_CREAT | O_CLOEXEC | flags | (is_stream(name) ? 0 : O_NOFOLLOW), 0600);
}

const char *tt_file_why(int error)
{
  return error == ELOOP ? "it is a symbolic link, and links are not followed: name the file itself" : strerror(error);
}

void tt_file_limit_begin(sigset_t *before)
{
  sigset_t xfsz;
  sigemptyset(&xfsz);
  sigaddset(&xfsz, SIGXFSZ);
  pthread_sigmask(SIG_BLOCK, &xfsz, before);
}

/* If the signal was blocked before, the caller must deal with it. */
void tt_file_limit_end(const sigset_t *before)
{
  sigset_t xfsz;
  int saved = errno;
  sigemptyset(&xfsz);
  sigaddset(&xfsz, SIGXFSZ);
  if (saved == EFBIG && !sigismember(before, SIGXFSZ)) sigtimedwait(&xfsz, NULL, &(struct timespec){0});
  pthread_sigmask(SIG_SETMASK, before, NULL);
  errno = saved;
}

ssize_t tt_file_write(int fd, const void *data, size_t len, off_t at)
{
  sigset_t before;
  int saved = errno;
  tt_file_limit_begin(&before);
  errno = 0;
  ssize_t n = at < 0 ? write(fd, data, len) : pwrite(fd, data, len, at);
  tt_file_limit_end(&before);
  if (n >= 0) errno = saved;
  return n;
}

/* ---- names ---- */

/* A text that grows until it is full. */
struct text {
  char *at;
  size_t size, used;
};

static __attribute__((format(printf, 2, 3))) void append(struct text *text, const char *format, ...)
{
  va_list args;
  if (text->used >= text->size) return;
  va_start(args, format);
  text->used += (size_t)vsnprintf(text->at + text->used, text->size - text->used, format, args);
  va_end(args);
}

int tt_file_is_special(const char *name)
{
  struct stat file;
  return stat(name, &file) == 0 && !S_ISREG(file.st_mode);
}

tuttiResult_t tt_file_name(char name[TT_FILE_NAME_BYTES], const char *setting, const char *pattern, int rank,
                           int nranks)
{
  char host[TT_HOST_NAME_BYTES];
  struct text text = {name, TT_FILE_NAME_BYTES, 0};
  const char *slash = strrchr(pattern, '/'), *dot = strrchr(pattern, '.');
  const char *suffix = dot && dot > (slash ? slash + 1 : pattern) ? dot : pattern + strlen(pattern);
  int names_rank = strstr(pattern, "%r") || strstr(pattern, "%h") || strstr(pattern, "%p");
  int differs = nranks == 1 || names_rank || tt_file_is_special(pattern);
  tt_host_name(host);
  for (const char *at = pattern;; at++) {
    if (at == suffix && !differs) append(&text, ".%d", rank);
    if (!*at) break;
    if (at[0] != '%' || !at[1] || !strchr("rhp", at[1])) append(&text, "%c", *at);
    else if (*++at == 'r') append(&text, "%d", rank);
    else if (*at == 'h') append(&text, "%s", host);
    else append(&text, "%d", (int)getpid());
  }
  if (text.used < text.size) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "%s is \"%s\": the name of the file has more than %d bytes", setting, pattern,
                 TT_FILE_NAME_BYTES - 1);
}
