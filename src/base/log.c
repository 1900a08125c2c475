/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/file.h"
#include "base/host.h"
#include "base/process.h"
#include "base/settings.h"

static _Thread_local char last_sentence[TT_SENTENCE_BYTES];

static int level_read(void)
{
  static const char *const words[] = {"NONE", "VERSION", "WARN", "INFO", "TRACE"};
  const char *text = tt_env("TUTTI_DEBUG");
  for (int level = 0; text && level < 5; level++)
    if (strcasecmp(text, words[level]) == 0) return level;
  return TT_LOG_WARN;
}

int tt_log_wants(enum tt_log_level level)
{
  int known = atomic_load_explicit(&tt_process.log_level, memory_order_relaxed);
  if (known == 0) {
    known = level_read() + 1;
    atomic_store(&tt_process.log_level, known);
  }
  return (int)level <= known - 1;
}

/* TUTTI_DEBUG_FILE with %h and %p filled in; cut if too long. */
static void file_name(char *out, size_t size, const char *pattern)
{
  char host[TT_HOST_NAME_BYTES];
  size_t used = 0;
  tt_host_name(host);
  for (; *pattern && used + 1 < size; pattern++) {
    if (pattern[0] == '%' && (pattern[1] == 'h' || pattern[1] == 'p')) {
      int n = pattern[1] == 'h' ? snprintf(out + used, size - used, "%s", host)
                                : snprintf(out + used, size - used, "%d", (int)getpid());
      used = used + (size_t)n < size ? used + (size_t)n : size - 1;
      pattern++;
    } else {
      out[used++] = *pattern;
    }
  }
  out[used] = 0;
}

static int file_descriptor(void)
{
  int known = atomic_load(&tt_process.log_file);
  if (known) return known - 1;
  int fd = STDERR_FILENO;
  const char *pattern = tt_env("TUTTI_DEBUG_FILE");
  if (pattern) {
    char name[512];
    file_name(name, sizeof name, pattern);
    int opened = tt_file_open(name, O_APPEND);
    if (opened >= 0) fd = opened;
    else
      dprintf(fd, "TUTTI WARN TUTTI_DEBUG_FILE %s cannot be opened: %s; the log stays on stderr\n", name,
              tt_file_why(errno));
  }
  int expected = 0;
  if (!atomic_compare_exchange_strong(&tt_process.log_file, &expected, fd + 1)) {
    if (fd != STDERR_FILENO) close(fd);
    return expected - 1;
  }
  return fd;
}

void tt_log_set(void (*function)(void *context, const char *level, const char *sentence), void *context)
{
  pthread_rwlock_wrlock(&tt_process.log_lock);
  tt_process.log_function = function;
  tt_process.log_context = context;
  pthread_rwlock_unlock(&tt_process.log_lock);
}

static const char *const names[] = {"", "VERSION", "WARN", "INFO", "TRACE"};

/* Gives a line to the program's function. 0: there is none. */
static int line_give(enum tt_log_level level, const char *text)
{
  char word[16] = "";
  pthread_rwlock_rdlock(&tt_process.log_lock);
  int has_function = tt_process.log_function != NULL;
  if (has_function && level == TT_LOG_ASKED) {
    size_t len = strcspn(text, " ");
    snprintf(word, sizeof word, "%.*s", (int)len, text);
    text += len + (text[len] == ' ');
  }
  if (has_function) tt_process.log_function(tt_process.log_context, *word ? word : names[level], text);
  pthread_rwlock_unlock(&tt_process.log_lock);
  return has_function;
}

static void write_line(enum tt_log_level level, const char *text)
{
  if (line_give(level, text)) return;
  char line[TT_SENTENCE_BYTES + 160], host[TT_HOST_NAME_BYTES];
  int is_asked = level == TT_LOG_ASKED;
  tt_host_name(host);
  int n = snprintf(line, sizeof line, "%s:%d:%ld TUTTI %s%s%s\n", host, (int)getpid(),
                   (long)syscall(SYS_gettid), is_asked ? "" : names[level], is_asked ? "" : " ", text);
  if (n >= (int)sizeof line) {
    n = (int)sizeof line - 1;
    line[n - 1] = '\n';
  }
  ssize_t written = tt_file_write(file_descriptor(), line, (size_t)n, -1);
  (void)written; /* a full disk must not stop a training run */
}

void tt_log(enum tt_log_level level, const char *format, ...)
{
  if (level == TT_LOG_NONE || !tt_log_wants(level)) return;
  int saved = errno;
  char text[TT_SENTENCE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  write_line(level, text);
  errno = saved;
}

tuttiResult_t tt_fail(tuttiResult_t code, const char *format, ...)
{
  char text[TT_SENTENCE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  memcpy(last_sentence, text, sizeof text);
  if (tt_log_wants(TT_LOG_WARN)) write_line(TT_LOG_WARN, text);
  return code;
}

tuttiResult_t tt_fail_quiet(tuttiResult_t code, const char *sentence)
{
  snprintf(last_sentence, sizeof last_sentence, "%s", sentence);
  return code;
}

tuttiResult_t tt_null(const char *name)
{
  return tt_fail(tuttiInvalidArgument, "%s is NULL: pass a valid pointer", name);
}

const char *tt_last_sentence(void)
{
  return last_sentence;
}
