/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/text_private.h"
#include "schedule_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

void schedule_text_read(struct tt_schedule *schedule, const char *text)
{
  char *full = NULL, *lines = strdup(text), *rest = NULL;
  size_t size = 0;
  int n = -1;
  for (const char *c = text; *c; c++) n += *c == '\n' && c[1];
  FILE *out = open_memstream(&full, &size);
  assert_true(lines && out);
  fprintf(out, "schedule %s steps %d\n", strtok_r(lines, "\n", &rest), n + 1);
  n = 0;
  for (char *line = strtok_r(NULL, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
    fprintf(out, "%d %s\n", n++, line);
  fclose(out);
  FILE *in = fmemopen(full, strlen(full), "r");
  assert_non_null(in);
  if (tt_schedule_parse(schedule, in) != tuttiSuccess) fail_msg("%s in\n%s", tt_last_sentence(), full);
  fclose(in);
  free(full);
  free(lines);
}

char *schedule_text_write(const struct tt_schedule *schedule)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(tt_schedule_print(schedule, out), tuttiSuccess);
  fclose(out);
  return text;
}

void schedule_text_becomes(schedule_pass_fn pass, const void *argument, const char *before, const char *after)
{
  struct tt_schedule made = {.error = tuttiSuccess}, wanted = {.error = tuttiSuccess};
  schedule_text_read(&made, before);
  schedule_text_read(&wanted, after);
  pass(&made, argument);
  if (made.error) fail_msg("%s", tt_last_sentence());
  char *made_text = schedule_text_write(&made), *wanted_text = schedule_text_write(&wanted);
  assert_string_equal(made_text, wanted_text);
  free(made_text);
  free(wanted_text);
  tt_schedule_destroy(&made);
  tt_schedule_destroy(&wanted);
}
