/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

static void write_all(int fd, const char *data, size_t len)
{
  while (len) {
    ssize_t n = write(fd, data, len);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return; /* nobody reads: the ranks go on all the same */
    data += n;
    len -= (size_t)n;
  }
}

/* With a prefix what is written ends its line, so that the next rank begins another one; without one not a byte is
 * added. */
static void line_write(const struct output *output, const char *text, size_t len, int newline)
{
  char whole[OUTPUT_LINE + sizeof output->prefix + 1];
  size_t prefix = strlen(output->prefix);
  memcpy(whole, output->prefix, prefix);
  memcpy(whole + prefix, text, len);
  newline |= prefix > 0;
  whole[prefix + len] = '\n';
  write_all(output->to, whole, prefix + len + (size_t)newline);
}

static void lines_write(struct output *output)
{
  char *start = output->line, *end = output->line + output->used, *newline;
  while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
    line_write(output, start, (size_t)(newline - start), 1);
    start = newline + 1;
  }
  output->used = (size_t)(end - start);
  memmove(output->line, start, output->used);
  if (output->used < sizeof output->line) return;
  line_write(output, output->line, output->used, 0);
  output->used = 0;
}

void output_pump(struct output *output)
{
  ssize_t n = read(output->from, output->line + output->used, sizeof output->line - output->used);
  if (n < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (n > 0) {
    output->used += (size_t)n;
    lines_write(output);
    return;
  }
  if (output->used) line_write(output, output->line, output->used, 0);
  output->used = 0;
  close(output->from);
  output->from = -1;
}
