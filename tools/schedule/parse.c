/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar, where {} repeats and | chooses:
 *   schedule COLLECTIVE ranks N rank N blocks N {root N | radix N} scratch N steps N
 *   INDEX WORD [FIRST,END) SOURCE {+ SOURCE} -> TARGET {, TARGET} {channel N}
 * SOURCE: PLACE:N, TARGET: PLACE:N or rank N. Blanks are free within a line. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "sched/step.h"
#include "schedule/text_private.h"

#define TOKEN_BYTES 64

struct reader {
  FILE *in;
  int line;
  tuttiResult_t failed;   /* the first error is kept; after it nothing is read */
  char token[TOKEN_BYTES]; /* "\n" at the end of a line, "" at the end of the text */
  struct tt_schedule *schedule;
  int32_t *peers;         /* room for one step's */
  int32_t peer_room;
  int32_t scratch, steps; /* as the header says */
};

static void wrong(struct reader *r, const char *wanted)
{
  if (r->failed) return;
  r->failed = tt_fail(tuttiInvalidArgument, "schedule text, line %d: %s, not '%s'", r->line, wanted,
                      r->token[0] == '\n' ? "end of line" : r->token);
}

/* Reads the next token into r->token. A comma stands alone, except in [a,b). */
static void next(struct reader *r)
{
  size_t n = 0;
  int c = getc(r->in);
  if (r->token[0] == '\n') r->line++;
  while (c == ' ' || c == '\t' || c == '\r') c = getc(r->in);
  int is_range = c == '[', stands_alone = c == '\n' || c == ',';
  if (c != EOF) r->token[n++] = (char)c;
  while (!stands_alone && c != EOF && n + 1 < TOKEN_BYTES) {
    c = getc(r->in);
    if (c == EOF || isspace(c) || (c == ',' && !is_range)) break;
    r->token[n++] = (char)c;
  }
  if (!stands_alone && c != EOF) ungetc(c, r->in);
  r->token[n] = 0;
}

/* True and a step further if the token is `text`. */
static int took(struct reader *r, const char *text)
{
  if (r->failed || strcmp(r->token, text) != 0) return 0;
  next(r);
  return 1;
}

static void expect(struct reader *r, const char *text, const char *wanted)
{
  if (!took(r, text)) wrong(r, wanted);
}

/* The number at *text, which must end with `end`; *text moves behind it. */
static int32_t digits(struct reader *r, const char **text, char end)
{
  char *stop;
  long value = strtol(*text, &stop, 10);
  int is_number = isdigit((unsigned char)**text) || **text == '-';
  if (!is_number || *stop != end || value > INT32_MAX || value < INT32_MIN) {
    wrong(r, "wanted a number");
    return 0;
  }
  *text = stop + (end != 0);
  return (int32_t)value;
}

static int32_t number(struct reader *r)
{
  const char *text = r->token;
  int32_t value = r->failed ? 0 : digits(r, &text, 0);
  if (!r->failed) next(r);
  return value;
}

static int32_t named(struct reader *r, const char *name, const char *wanted)
{
  expect(r, name, wanted);
  return number(r);
}

static void header_parse(struct reader *r)
{
  struct tt_shape shape = {.root = -1, .middle = -1};
  next(r);
  expect(r, "schedule", "wanted 'schedule'");
  shape.collective = r->failed ? TT_NO_COLLECTIVE : tt_kind_find(r->token);
  if (shape.collective == TT_NO_COLLECTIVE) wrong(r, "wanted a collective");
  if (!r->failed) next(r);
  shape.nranks = named(r, "ranks", "wanted 'ranks N'");
  shape.rank = named(r, "rank", "wanted 'rank N'");
  shape.nblocks = named(r, "blocks", "wanted 'blocks N'");
  if (took(r, "root")) shape.root = number(r);
  if (took(r, "radix")) shape.radix = number(r);
  r->scratch = named(r, "scratch", "wanted 'scratch N'");
  r->steps = named(r, "steps", "wanted 'steps N'");
  if (!r->failed && strcmp(r->token, "\n") != 0) wrong(r, "wanted the end of the line");
  if (r->failed) return;
  if (shape.nranks < 1 || shape.rank < 0 || shape.rank >= shape.nranks || shape.nblocks < 1) {
    wrong(r, "wanted ranks > rank >= 0 and blocks >= 1");
    return;
  }
  tt_schedule_init(r->schedule, &shape);
  if (r->schedule->error) r->failed = tt_fail(tuttiInvalidArgument, "schedule text, line 1: %s", tt_last_sentence());
}

/* PLACE:N; NOWHERE if the token is something else. */
static struct tt_operand operand(struct reader *r)
{
  static const char *const names[] = {"in:", "out:", "scratch:", "msg:"};
  struct tt_operand found = {TT_NOWHERE, 0};
  for (int k = 0; k < 4 && !r->failed; k++) {
    size_t length = strlen(names[k]);
    if (strncmp(r->token, names[k], length) != 0) continue;
    const char *text = r->token + length;
    found.place = (uint8_t)(TT_IN + k);
    found.at = digits(r, &text, 0);
    next(r);
    break;
  }
  return found;
}

static void sources_parse(struct reader *r, struct tt_step *step, struct tt_operand *sources)
{
  do {
    if (step->nsrc == TT_MAX_SOURCES) {
      wrong(r, "wanted fewer sources");
      return;
    }
    sources[step->nsrc] = operand(r);
    if (sources[step->nsrc].place == TT_NOWHERE) wrong(r, "wanted in:N, out:N, scratch:N or msg:N");
    step->nsrc++;
  } while (took(r, "+"));
}

static void targets_parse(struct reader *r, struct tt_step *step)
{
  do {
    if (took(r, "rank")) {
      if (step->nto == r->peer_room) wrong(r, "wanted fewer ranks to send to");
      if (r->failed) return;
      r->peers[step->nto++] = number(r);
    } else {
      if (step->dst.place != TT_NOWHERE) wrong(r, "wanted one place at most");
      step->dst = operand(r);
      if (step->dst.place == TT_NOWHERE) wrong(r, "wanted out:N, scratch:N or 'rank N'");
    }
  } while (took(r, ","));
}

static void range_parse(struct reader *r, struct tt_step *step)
{
  const char *text = r->token + 1;
  if (r->failed) return;
  if (r->token[0] != '[') {
    wrong(r, "wanted blocks as [FIRST,END)");
    return;
  }
  step->first = digits(r, &text, ',');
  int32_t end = r->failed ? 0 : digits(r, &text, ')');
  if (r->failed) return;
  if (*text || step->first < 0 || end <= step->first)
    wrong(r, "wanted blocks as [FIRST,END)");
  step->nblocks = end - step->first;
  next(r);
}

static void step_add(struct reader *r, const struct tt_step *step, const struct tt_operand *sources)
{
  char reason[TT_REASON_BYTES];
  if (!tt_step_check(r->schedule, step, sources, r->peers, reason)) {
    r->failed = tt_fail(tuttiInvalidArgument, "schedule text, line %d: %s", r->line, reason);
    return;
  }
  tt_add(r->schedule, step, sources, r->peers);
  r->failed = r->schedule->error;
}

static void step_parse(struct reader *r)
{
  struct tt_step step = {0};
  struct tt_operand sources[TT_MAX_SOURCES];
  char word[TOKEN_BYTES];
  if (number(r) != r->schedule->nsteps) wrong(r, "wanted the steps numbered 0, 1, ... in front of this");
  memcpy(word, r->token, sizeof word);
  next(r);
  range_parse(r, &step);
  sources_parse(r, &step, sources);
  expect(r, "->", "wanted '->'");
  targets_parse(r, &step);
  if (took(r, "channel")) {
    int32_t channel = number(r);
    if (channel < 1 || channel > UINT8_MAX) wrong(r, "wanted a channel from 1 to 255 in front of this");
    step.channel = (uint8_t)channel;
  }
  if (r->failed) return;
  if (strcmp(r->token, "\n") != 0 && r->token[0]) wrong(r, "wanted the end of the line");
  if (strcmp(word, tt_step_word(&step, sources)) != 0) wrong(r, "the step's first word does not fit the rest");
  if (!r->failed) step_add(r, &step, sources);
}

static void body_parse(struct reader *r)
{
  r->peer_room = r->schedule->shape.nranks < UINT16_MAX ? r->schedule->shape.nranks : UINT16_MAX;
  r->peers = tt_alloc((size_t)r->peer_room, sizeof *r->peers);
  if (!r->peers) r->failed = tt_fail(tuttiSystemError, "no memory to read a schedule: give the process more");
  while (!r->failed && r->token[0]) {
    while (took(r, "\n")) continue;
    if (r->token[0]) step_parse(r);
  }
  if (r->failed) return;
  if (r->schedule->nsteps != r->steps) wrong(r, "wanted as many steps as the header says");
  if (r->schedule->nslots != r->scratch) wrong(r, "wanted as much scratch as the header says");
}

tuttiResult_t tt_schedule_parse(struct tt_schedule *schedule, FILE *in)
{
  struct tt_schedule made = {.error = tuttiSuccess};
  struct reader r = {.in = in, .line = 1, .schedule = &made};
  header_parse(&r);
  if (!r.failed) body_parse(&r);
  tt_free(r.peers);
  if (r.failed) {
    tt_schedule_destroy(&made);
    return r.failed;
  }
  tt_schedule_destroy(schedule);
  *schedule = made;
  return tuttiSuccess;
}
