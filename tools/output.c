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

/* Skips digits and the colon or blank behind them; NULL: that is not what stands there. */
static const char *number_skip(const char *at, const char *end, char after)
{
  const char *digits = at;
  while (at && at < end && *at >= '0' && *at <= '9') at++;
  return at && at > digits && at < end && *at == after ? at + 1 : NULL;
}

/* The sentence of a line that the library has logged, "host:pid:tid TUTTI WARN sentence"; NULL: the line is none. */
static const char *sentence_find(const char *line, size_t len)
{
  static const char word[] = "TUTTI WARN ";
  const char *end = line + len, *at = memchr(line, ':', len);
  if (!at || memchr(line, ' ', (size_t)(at - line))) return NULL;
  at = number_skip(at + 1, end, ':');
  at = at ? number_skip(at, end, ' ') : NULL;
  if (!at || (size_t)(end - at) < sizeof word - 1 || memcmp(at, word, sizeof word - 1) != 0) return NULL;
  return at + sizeof word - 1;
}

/* 1 for a warning of the library that another rank was the first to give, letter by letter. */
static int is_said(const struct output *output, const char *line, size_t line_len)
{
  struct said *said = output->said;
  const char *sentence = said ? sentence_find(line, line_len) : NULL;
  if (!sentence) return 0;
  size_t len = line_len - (size_t)(sentence - line);
  for (int s = 0; s < said->n; s++) {
    const struct sentence *known = &said->sentences[s];
    if (len != known->len || memcmp(sentence, known->text, len) != 0) continue;
    if (known->rank == output->rank) return 0; /* it has happened again */
    said->left_out++;
    return 1;
  }
  if (len > sizeof said->sentences[0].text || said->n == (int)(sizeof said->sentences / sizeof *said->sentences))
    return 0;
  struct sentence *added = &said->sentences[said->n++];
  added->rank = output->rank;
  added->len = len;
  memcpy(added->text, sentence, len);
  return 0;
}

/* ---- lines ---- */

static void lines_write(struct output *output)
{
  char *start = output->line, *end = output->line + output->used, *newline;
  while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
    size_t len = (size_t)(newline - start);
    if (!output_heard(output, start, len) && !is_said(output, start, len)) line_write(output, start, len, 1);
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
