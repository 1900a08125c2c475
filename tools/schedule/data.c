/* SPDX-License-Identifier: BSD-3-Clause */
/* The contents of a picture, as JSON. */
#include <errno.h>
#include <string.h>

#include "schedule/picture_private.h"

/* Between double quotes. */
static void text_print(const char *text, FILE *out)
{
  for (; *text; text++)
    if (*text == '"' || *text == '\\') fprintf(out, "\\%c", *text);
    else fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
}

static void spans_print(const struct tt_picture *picture, FILE *out)
{
  fprintf(out, " \"spans\": [");
  for (int32_t r = 0; r < picture->shown; r++) {
    const struct tt_round *span = &picture->span[r];
    fprintf(out, "%s[%lld, %lld, %lld]", r ? ", " : "", (long long)span->messages, (long long)span->fewest,
            (long long)span->most);
  }
  fprintf(out, "],\n");
}

static void arrows_print(const struct tt_picture *picture, FILE *out)
{
  fprintf(out, " \"arrows\": [");
  for (int64_t k = 0; k < picture->narrows; k++) {
    const struct tt_arrow *arrow = &picture->arrows[k];
    fprintf(out, "%s[%d, %d, %d, %d, %d, %lld]", k ? ",\n  " : "\n  ", (int)arrow->round, (int)arrow->from,
            (int)arrow->to, (int)arrow->first, (int)arrow->nblocks, (long long)arrow->elements);
  }
  fprintf(out, "],\n");
}

static void marks_print(const struct tt_picture *picture, FILE *out)
{
  static const char *const kinds[] = {"copy", "receive", "reduce"};
  fprintf(out, " \"marks\": [");
  for (int64_t k = 0; k < picture->nmarks; k++) {
    const struct tt_mark *mark = &picture->marks[k];
    fprintf(out, "%s[%d, %d, \"%s\", %d]", k ? ",\n  " : "\n  ", (int)mark->round, (int)mark->rank, kinds[mark->kind],
            (int)mark->sources);
  }
  fprintf(out, "]}\n");
}

static void cells_print(const struct tt_picture *picture, FILE *out)
{
  fprintf(out, " \"row_ranks\": %d, \"column_rounds\": %d,\n \"cells\": [", (int)picture->row_ranks,
          (int)picture->column_rounds);
  for (int32_t r = 0; r < picture->rows; r++) {
    fprintf(out, "%s[", r ? ",\n  " : "\n  ");
    for (int32_t c = 0; c < picture->columns; c++)
      fprintf(out, "%s%lld", c ? ", " : "", (long long)picture->cells[(int64_t)r * picture->columns + c]);
    fprintf(out, "]");
  }
  fprintf(out, "]}\n");
}

static void head_print(const struct tt_picture *picture, const struct tt_sim_caption *caption, FILE *out)
{
  fprintf(out, "{\"picture\": \"schedule\", \"title\": \"");
  text_print(caption->title, out);
  fprintf(out, "\", \"note\": \"");
  text_print(caption->note ? caption->note : "", out);
  fprintf(out, "\",\n \"ranks\": %d, \"blocks\": %d, \"rounds\": %d, \"shown\": %d, \"messages\": %lld, "
               "\"most\": %lld,\n \"group\": [", (int)picture->shape.nranks, (int)picture->nblocks,
          (int)picture->rounds, (int)picture->shown, (long long)picture->messages, (long long)picture->most);
  for (int32_t r = 0; caption->group && r < picture->shape.nranks; r++)
    fprintf(out, "%s%d", r ? ", " : "", (int)caption->group[r]);
  fprintf(out, "],\n");
}

tuttiResult_t tt_picture_print(const struct tt_sim_play *play, const struct tt_sim_caption *caption, FILE *out)
{
  struct tt_picture picture;
  tuttiResult_t code = tt_picture_make(&picture, play);
  if (!code) {
    head_print(&picture, caption, out);
    if (picture.cells) {
      cells_print(&picture, out);
    } else {
      spans_print(&picture, out);
      arrows_print(&picture, out);
      marks_print(&picture, out);
    }
    if (ferror(out)) code = tt_fail(tuttiSystemError, "cannot write a picture: %s", strerror(errno));
  }
  tt_picture_destroy(&picture);
  return code;
}
