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

/* ---- what was said already ---- */

/* The sentence of a line that the library has logged, without what says that it is another rank's; *len is that of the
 * line before and of the sentence after. NULL: the line is none. */
static const char *sentence_find(const char *line, size_t *len)
{
  static const char warns[] = " TUTTI WARN ", passes_on[] = " gave up: ";
  const char *end = line + *len, *at = memmem(line, *len, warns, strlen(warns));
  if (!at) return NULL;
  at += strlen(warns);
  const char *cause = memmem(at, (size_t)(end - at), passes_on, strlen(passes_on));
  if (cause) at = cause + strlen(passes_on);
  *len = (size_t)(end - at);
  return at;
}

#define TELLING 16 /* a sentence of fewer characters could end any line */

static int is_said(const struct output *output, const char *line, size_t len)
{
  struct said *said = output->said;
  size_t sentence_len = len;
  const char *sentence = said ? sentence_find(line, &sentence_len) : NULL;
  for (int s = 0; said && s < said->n; s++) {
    const struct sentence *known = &said->sentences[s];
    if (len < known->len || memcmp(line + len - known->len, known->text, known->len) != 0) continue;
    if (sentence && known->rank == output->rank) return 0; /* it has happened again */
    said->left_out++;
    return 1;
  }
  if (!sentence || sentence_len < TELLING || sentence_len > sizeof said->sentences[0].text ||
      said->n == (int)(sizeof said->sentences / sizeof *said->sentences))
    return 0;
  struct sentence *added = &said->sentences[said->n++];
  added->rank = output->rank;
  added->len = sentence_len;
  memcpy(added->text, sentence, sentence_len);
  return 0;
}

/* ---- lines ---- */

static void lines_write(struct output *output)
{
  char *start = output->line, *end = output->line + output->used, *newline;
  while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
    size_t len = (size_t)(newline - start);
    if (!is_said(output, start, len)) line_write(output, start, len, 1);
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
