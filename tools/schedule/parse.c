/* SPDX-License-Identifier: BSD-3-Clause */
/* The grammar, where {} repeats and | chooses:
 *   schedule COLLECTIVE ranks N rank N blocks N {root N | radix N} scratch N steps N
 *   INDEX WORD [FIRST,END) SOURCE {+ SOURCE} -> TARGET {, TARGET} {channel N}
 * SOURCE: PLACE:N, TARGET: PLACE:N or rank N. Blanks are free within a line. */
#include <string.h>

#include "base/scan.h"
#include "sched/step.h"
#include "schedule/text_private.h"

struct reader {
  struct tt_scan scan;
  struct tt_schedule *schedule;
  int32_t *peers;         /* room for one step's */
  int32_t peer_room;
  int32_t scratch, steps; /* as the header says */
};

static int32_t number(struct reader *r)
{
  return (int32_t)tt_scan_whole(&r->scan, "a number", 0, INT32_MAX);
}

static int32_t named(struct reader *r, const char *name, const char *wanted)
{
  tt_scan_expect(&r->scan, name, wanted);
  return number(r);
}

/* The number behind the first `from` characters of the token, with `end` behind it. */
static int32_t number_within(struct reader *r, size_t from, const char *end, const char *wanted)
{
  const char *begin = r->scan.token + from, *text = begin;
  uint64_t value = tt_digits(&text, INT32_MAX);
  if (text == begin || strcmp(text, end) != 0 || value > INT32_MAX) tt_scan_wrong(&r->scan, wanted);
  tt_scan_next(&r->scan);
  return r->scan.failed ? 0 : (int32_t)value;
}

static void header_parse(struct reader *r)
{
  struct tt_scan *scan = &r->scan;
  struct tt_shape shape = {.root = -1, .middle = -1};
  tt_scan_expect(scan, "schedule", "'schedule'");
  shape.collective = scan->failed ? TT_NO_COLLECTIVE : tt_kind_find(scan->token);
  if (shape.collective == TT_NO_COLLECTIVE) tt_scan_wrong(scan, "a collective");
  tt_scan_next(scan);
  shape.nranks = named(r, "ranks", "'ranks N'");
  shape.rank = named(r, "rank", "'rank N'");
  shape.nblocks = named(r, "blocks", "'blocks N'");
  if (tt_scan_took(scan, "root")) shape.root = number(r);
  if (tt_scan_took(scan, "radix")) shape.radix = number(r);
  r->scratch = named(r, "scratch", "'scratch N'");
  r->steps = named(r, "steps", "'steps N'");
  tt_scan_line_end(scan);
  if (shape.nranks < 1 || shape.rank >= shape.nranks || shape.nblocks < 1)
    tt_scan_wrong(scan, "ranks > rank >= 0 and blocks >= 1");
  if (scan->failed) return;
  tt_schedule_init(r->schedule, &shape);
  if (r->schedule->error) tt_scan_fail(scan, 1, "%s", tt_last_sentence());
}

/* PLACE:N; NOWHERE if the token is something else. */
static struct tt_operand operand(struct reader *r)
{
  static const char *const names[] = {"in:", "out:", "scratch:", "msg:"};
  struct tt_operand found = {TT_NOWHERE, 0};
  for (int k = 0; k < 4 && !r->scan.failed && found.place == TT_NOWHERE; k++) {
    size_t length = strlen(names[k]);
    if (strncmp(r->scan.token, names[k], length) != 0) continue;
    found.place = (uint8_t)(TT_IN + k);
    found.at = number_within(r, length, "", "a number behind the place");
  }
  return found;
}

static void sources_parse(struct reader *r, struct tt_step *step, struct tt_operand *sources)
{
  do {
    if (step->nsrc == TT_MAX_SOURCES) {
      tt_scan_wrong(&r->scan, "fewer sources");
      return;
    }
    sources[step->nsrc] = operand(r);
    if (sources[step->nsrc].place == TT_NOWHERE) tt_scan_wrong(&r->scan, "in:N, out:N, scratch:N or msg:N");
    step->nsrc++;
  } while (tt_scan_took(&r->scan, "+"));
}

static void targets_parse(struct reader *r, struct tt_step *step)
{
  do {
    if (tt_scan_took(&r->scan, "rank")) {
      if (step->nto == r->peer_room) tt_scan_wrong(&r->scan, "fewer ranks to send to");
      if (r->scan.failed) return;
      r->peers[step->nto++] = number(r);
    } else {
      if (step->dst.place != TT_NOWHERE) tt_scan_wrong(&r->scan, "one place at most");
      step->dst = operand(r);
      if (step->dst.place == TT_NOWHERE) tt_scan_wrong(&r->scan, "out:N, scratch:N or 'rank N'");
    }
  } while (tt_scan_took(&r->scan, ","));
}

/* [FIRST,END): the comma is a word. */
static void range_parse(struct reader *r, struct tt_step *step)
{
  static const char wanted[] = "blocks as [FIRST,END)";
  if (r->scan.token[0] != '[') tt_scan_wrong(&r->scan, wanted);
  step->first = number_within(r, 1, "", wanted);
  tt_scan_expect(&r->scan, ",", wanted);
  int32_t end = number_within(r, 0, ")", wanted);
  if (end <= step->first) tt_scan_fail(&r->scan, r->scan.line, "wanted %s, not '[%d,%d)'", wanted, step->first, end);
  step->nblocks = end - step->first;
}

static void step_add(struct reader *r, const struct tt_step *step, const struct tt_operand *sources)
{
  char reason[TT_REASON_BYTES];
  if (!tt_step_check(r->schedule, step, sources, r->peers, reason)) {
    tt_scan_fail(&r->scan, r->scan.line, "%s", reason);
    return;
  }
  tt_add(r->schedule, step, sources, r->peers);
  r->scan.failed = r->schedule->error;
}

static void step_parse(struct reader *r)
{
  struct tt_scan *scan = &r->scan;
  struct tt_step step = {0};
  struct tt_operand sources[TT_MAX_SOURCES];
  char word[TT_TOKEN_BYTES];
  if (number(r) != r->schedule->nsteps) tt_scan_wrong(scan, "the steps numbered 0, 1, ... in front of this");
  memcpy(word, scan->token, sizeof word);
  tt_scan_next(scan);
  range_parse(r, &step);
  sources_parse(r, &step, sources);
  tt_scan_expect(scan, "->", "'->'");
  targets_parse(r, &step);
  if (tt_scan_took(scan, "channel")) step.channel = (uint8_t)tt_scan_whole(scan, "a channel", 1, UINT8_MAX);
  tt_scan_line_end(scan);
  if (scan->failed) return;
  if (strcmp(word, tt_step_word(&step, sources)) != 0)
    tt_scan_fail(scan, scan->line, "the step's first word is '%s', which does not fit the rest", word);
  if (!scan->failed) step_add(r, &step, sources);
}

static void body_parse(struct reader *r)
{
  struct tt_scan *scan = &r->scan;
  r->peer_room = r->schedule->shape.nranks < UINT16_MAX ? r->schedule->shape.nranks : UINT16_MAX;
  r->peers = tt_alloc((size_t)r->peer_room, sizeof *r->peers);
  if (!r->peers) scan->failed = tt_fail(tuttiSystemError, "no memory to read a schedule: give the process more");
  while (tt_scan_line(scan)) step_parse(r);
  if (r->schedule->nsteps != r->steps) tt_scan_wrong(scan, "as many steps as the header says");
  if (r->schedule->nslots != r->scratch) tt_scan_wrong(scan, "as much scratch as the header says");
}

tuttiResult_t tt_schedule_parse(struct tt_schedule *schedule, FILE *in)
{
  struct tt_schedule made = {.error = tuttiSuccess};
  struct reader r = {.schedule = &made};
  tt_scan_begin(&r.scan, in, "schedule text", ",");
  header_parse(&r);
  if (!r.scan.failed) body_parse(&r);
  tt_free(r.peers);
  if (tt_scan_end(&r.scan) != tuttiSuccess) {
    tt_schedule_destroy(&made);
    return r.scan.failed;
  }
  tt_schedule_destroy(schedule);
  *schedule = made;
  return tuttiSuccess;
}
