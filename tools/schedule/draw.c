/* SPDX-License-Identifier: BSD-3-Clause */
/* A picture as SVG 1.1, without scripts and styles from elsewhere. Lengths are in pixels. */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "schedule/picture.h"

#define LEFT 74
#define TOP 108
#define RIGHT 30
#define BOTTOM 74
#define ROOMY 20    /* ranks that far apart have full marks and labels */
#define HEADS 4000  /* arrows more than that get neither heads nor tips */
#define LABELS 260  /* and more than that no numbers */
#define INK "#22313f"
#define WHOLE "#4a5763" /* a message of all blocks */
#define PALE "#8a97a3"

struct canvas {
  const struct tt_picture *picture;
  FILE *out;
  double row, column; /* distance of ranks, of rounds */
  double width, height;
};

static double x_of(const struct canvas *c, double round)
{
  return LEFT + round * c->column;
}

static double y_of(const struct canvas *c, double rank)
{
  return TOP + (rank + 0.5) * c->row;
}

static void text_print(FILE *out, const char *text)
{
  for (; *text; text++) switch (*text) {
    case '&': fputs("&amp;", out); break;
    case '<': fputs("&lt;", out); break;
    case '>': fputs("&gt;", out); break;
    default: fputc((unsigned char)*text < ' ' ? ' ' : *text, out);
    }
}

static struct canvas canvas_of(const struct tt_picture *picture, FILE *out)
{
  struct canvas c = {.picture = picture, .out = out};
  int32_t ranks = picture->shape.nranks, rounds = picture->shown ? picture->shown : 1;
  c.row = ranks <= 8 ? 56 : ranks <= 100 ? 460.0 / ranks : 900.0 / ranks;
  if (ranks > 8 && c.row < 14 && ranks <= 100) c.row = 14;
  if (ranks > 100 && c.row < 1.5) c.row = 1.5;
  if (ranks > 8 && ranks <= 32) c.row = ranks <= 16 ? 40 : 26;
  c.column = 1040.0 / rounds;
  if (c.column > 340) c.column = 340;
  if (c.column < 46) c.column = 46;
  c.width = LEFT + rounds * c.column + RIGHT;
  if (c.width < 810) c.width = 810;
  c.height = TOP + ranks * c.row + BOTTOM;
  return c;
}

/* ---- background ---------------------------------------------------------------------- */

/* Every other run of ranks of one group is a band. */
static void bands_draw(const struct canvas *c, const int32_t *group)
{
  int32_t ranks = c->picture->shape.nranks;
  int is_dark = 1;
  for (int32_t first = 0, end; group && first < ranks; first = end, is_dark = !is_dark) {
    for (end = first + 1; end < ranks && group[end] == group[first]; end++) continue;
    if (!is_dark) continue;
    fprintf(c->out, "<rect x=\"%d\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#edf2f7\"/>\n", LEFT - 66,
            y_of(c, first - 0.5), x_of(c, c->picture->shown) - LEFT + 80, (end - first) * c->row);
  }
}

static void ranks_draw(const struct canvas *c)
{
  int32_t ranks = c->picture->shape.nranks, every = 1;
  const int32_t steps[] = {1, 2, 5, 10, 16, 32, 50, 64, 100, 128, 256, 512, 1024, 4096};
  for (size_t s = 0; s < sizeof steps / sizeof steps[0] && every * c->row < 13; s++) every = steps[s];
  fprintf(c->out, "<g stroke=\"#dfe5ea\" stroke-width=\"1\">\n");
  for (int32_t r = 0; r < ranks; r += c->row < 6 ? every : 1)
    fprintf(c->out, "<path d=\"M%d %.1fH%.1f\"/>\n", LEFT, y_of(c, r), x_of(c, c->picture->shown));
  fprintf(c->out, "</g>\n<g text-anchor=\"end\" font-size=\"%d\" fill=\"" INK "\">\n", c->row < ROOMY ? 10 : 13);
  for (int32_t r = 0; r < ranks; r += every)
    fprintf(c->out, "<text x=\"%d\" y=\"%.1f\">%s%d</text>\n", LEFT - 14, y_of(c, r) + 4, every == 1 ? "rank " : "",
            (int)r);
  fprintf(c->out, "</g>\n");
}

/* Its number, and below how many elements its messages have. */
static void round_name(const struct canvas *c, int32_t round)
{
  const struct tt_round *span = &c->picture->span[round];
  double x = x_of(c, round + 0.5);
  fprintf(c->out, "<text x=\"%.1f\" y=\"%d\">%s%d</text>\n", x, TOP - 30, c->column >= 80 ? "round " : "",
          (int)round + 1);
  if (!span->messages) return;
  fprintf(c->out, "<text x=\"%.1f\" y=\"%d\" fill=\"" INK "\">%lld", x, TOP - 15, (long long)span->fewest);
  if (span->fewest < span->most && c->column < 80) fprintf(c->out, "..");
  else if (span->fewest < span->most) fprintf(c->out, " to %lld", (long long)span->most);
  fprintf(c->out, "</text>\n");
}

static void rounds_draw(const struct canvas *c)
{
  int32_t rounds = c->picture->shown;
  fprintf(c->out, "<g stroke=\"#cbd4db\" stroke-width=\"1\" stroke-dasharray=\"2 3\">\n");
  for (int32_t r = 0; r <= rounds; r++)
    fprintf(c->out, "<path d=\"M%.1f %dV%.1f\"/>\n", x_of(c, r), TOP - 8, c->height - BOTTOM + 6);
  fprintf(c->out, "</g>\n<g text-anchor=\"middle\" font-size=\"%d\" fill=\"" PALE "\">\n", c->column < 80 ? 10 : 12);
  for (int32_t r = 0; r < rounds; r++) round_name(c, r);
  fprintf(c->out, "</g>\n");
}

/* ---- messages ------------------------------------------------------------------------- */

/* Of a place in the vector, 0 to 1, on the circle of colours. */
static void colour_print(const struct canvas *c, double at)
{
  const double pi = 3.14159265358979;
  fputc('#', c->out);
  for (int k = 0; k < 3; k++)
    fprintf(c->out, "%02x", (int)(125 + 88 * cos(2 * pi * (at - k / 3.0)) - (k == 1 ? 22 : 0)));
}

/* That of the middle of its blocks; whole vectors are grey. */
static void arrow_colour(const struct canvas *c, const struct tt_arrow *arrow)
{
  if (arrow->nblocks == c->picture->nblocks) fputs(WHOLE, c->out);
  else colour_print(c, fmod((arrow->first + 0.5 * arrow->nblocks) / c->picture->nblocks, 1));
}

static double width_of(const struct canvas *c, const struct tt_arrow *arrow)
{
  double share = (double)arrow->elements / (double)c->picture->most;
  double most = c->picture->narrows > HEADS || c->row < 8 ? 0.7 : c->picture->narrows > LABELS ? 1.4 : 2.6;
  return most * (0.4 + 0.6 * sqrt(share));
}

/* A triangle at (x, y) that points along (dx, dy), of length 1. */
static void head_draw(const struct canvas *c, double x, double y, double dx, double dy)
{
  double len = c->row < ROOMY ? 5 : 9, half = len * 0.38;
  fprintf(c->out, "M%.1f %.1fL%.1f %.1fL%.1f %.1fZ", x, y, x - len * dx - half * dy, y - len * dy + half * dx,
          x - len * dx + half * dy, y - len * dy - half * dx);
}

static void tip_draw(const struct canvas *c, const struct tt_arrow *arrow)
{
  fprintf(c->out, "<title>round %d: rank %d to rank %d, blocks [%d,%d), %lld elements</title>", (int)arrow->round + 1,
          (int)arrow->from, (int)arrow->to, (int)arrow->first, (int)(arrow->first + arrow->nblocks),
          (long long)arrow->elements);
}

/* From the sender's mark to the receiver's. */
static void arrow_draw(const struct canvas *c, const struct tt_arrow *arrow)
{
  double x = x_of(c, arrow->round), y = y_of(c, arrow->from);
  double dx = c->column, dy = y_of(c, arrow->to) - y, length = sqrt(dx * dx + dy * dy);
  double gap = c->row < ROOMY ? 3 : 9; /* room for marks */
  dx /= length;
  dy /= length;
  double x1 = x + gap * dx, y1 = y + gap * dy, x2 = x + (length - gap) * dx, y2 = y + (length - gap) * dy;
  fprintf(c->out, "<g stroke=\"");
  arrow_colour(c, arrow);
  fprintf(c->out, "\" fill=\"");
  arrow_colour(c, arrow);
  fprintf(c->out, "\">");
  tip_draw(c, arrow);
  fprintf(c->out, "<path stroke-width=\"%.1f\" d=\"M%.1f %.1fL%.1f %.1f\"/><path stroke=\"none\" d=\"",
          width_of(c, arrow), x1, y1, x2 - 3 * dx, y2 - 3 * dy);
  head_draw(c, x2, y2, dx, dy);
  fprintf(c->out, "\"/></g>\n");
}

static void line_draw(const struct canvas *c, const struct tt_arrow *arrow)
{
  fprintf(c->out, "<path stroke=\"");
  arrow_colour(c, arrow);
  fprintf(c->out, "\" d=\"M%.1f %.1fL%.1f %.1f\"/>\n", x_of(c, arrow->round), y_of(c, arrow->from),
          x_of(c, arrow->round + 1), y_of(c, arrow->to));
}

/* The number of elements, near the tail, where arrows that cross have not crossed yet; none where the head of the round
 * says enough. */
static void label_draw(const struct canvas *c, const struct tt_arrow *arrow)
{
  const struct tt_round *span = &c->picture->span[arrow->round];
  if (span->most - span->fewest < 2) return;
  double x = x_of(c, arrow->round), y = y_of(c, arrow->from), dy = y_of(c, arrow->to) - y;
  double at = 0.24 + 0.05 * (arrow->to > arrow->from);
  fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\">%lld</text>\n", x + at * c->column, y + at * dy + 4,
          (long long)arrow->elements);
}

static void arrows_draw(const struct canvas *c)
{
  const struct tt_picture *picture = c->picture;
  int is_many = picture->narrows > HEADS;
  fprintf(c->out, is_many ? "<g fill=\"none\" stroke-width=\"0.5\" stroke-opacity=\"0.45\">\n" : "<g>\n");
  for (int64_t k = 0; k < picture->narrows; k++)
    if (is_many) line_draw(c, &picture->arrows[k]);
    else arrow_draw(c, &picture->arrows[k]);
  fprintf(c->out, "</g>\n");
  if (picture->narrows > LABELS || c->row < ROOMY) return;
  fprintf(c->out, "<g text-anchor=\"middle\" font-size=\"11\" fill=\"" INK "\" stroke=\"#ffffff\" stroke-width=\"4\" "
                  "stroke-linejoin=\"round\" paint-order=\"stroke\">\n");
  for (int64_t k = 0; k < picture->narrows; k++) label_draw(c, &picture->arrows[k]);
  fprintf(c->out, "</g>\n");
}

/* ---- what ranks do ---------------------------------------------------------------------- */

static void mark_draw(const struct canvas *c, double x, double y, const struct tt_mark *mark)
{
  double r = c->row < ROOMY ? 2.5 : 7;
  if (mark->kind == TT_MARK_COPY) {
    fprintf(c->out, "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" fill=\"#ffffff\"/>\n", x - r / 2,
            y - r / 2, r, r);
  } else if (mark->kind == TT_MARK_TAKE) {
    fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#ffffff\"/>\n", x, y, r / 2);
  } else if (r < 7) {
    fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"" INK "\"/>\n", x, y, r);
  } else {
    fprintf(c->out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"#ffd766\"/>", x, y, r);
    fprintf(c->out, "<path d=\"M%.1f %.1fh8m-4 -4v8\"/>", x - 4, y);
    if (mark->sources > 1)
      fprintf(c->out, "<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\" stroke=\"none\" fill=\"" INK "\">%d</text>", x + 9,
              y - 6, (int)mark->sources);
    fprintf(c->out, "\n");
  }
}

static void marks_draw(const struct canvas *c)
{
  fprintf(c->out, "<g stroke=\"" INK "\" stroke-width=\"%s\">\n", c->row < ROOMY ? "0.7" : "1.3");
  for (int64_t k = 0; c->row >= 6 && k < c->picture->nmarks; k++) {
    const struct tt_mark *mark = &c->picture->marks[k];
    mark_draw(c, x_of(c, mark->round), y_of(c, mark->rank), mark);
  }
  fprintf(c->out, "</g>\n");
}

/* ---- words -------------------------------------------------------------------------------- */

static void legend_draw(const struct canvas *c)
{
  const struct tt_mark marks[] = {{0, 0, 1, TT_MARK_REDUCE}, {0, 0, 0, TT_MARK_TAKE}, {0, 0, 0, TT_MARK_COPY}};
  const char *const combines = c->row < ROOMY ? "combines" : "combines, with how many if several";
  const char *const words[] = {combines, "receives", "copies"};
  const double at[] = {12, 274, 360};
  double y = c->height - 40;
  for (int k = 0; k < 3; k++) {
    fprintf(c->out, "<g stroke=\"" INK "\" stroke-width=\"1.3\">");
    mark_draw(c, at[k] + 8, y - 4, &marks[k]);
    fprintf(c->out, "</g><text x=\"%.0f\" y=\"%.1f\" font-size=\"12\">%s</text>\n", at[k] + 22, y, words[k]);
  }
  fprintf(c->out, "<path d=\"M440 %.1fh26\" stroke=\"" WHOLE "\" stroke-width=\"2.6\"/><text x=\"472\" y=\"%.1f\" "
                  "font-size=\"12\">all blocks</text>\n", y - 4, y);
  for (int k = 0; k < 24; k++) {
    fprintf(c->out, "<rect x=\"%d\" y=\"%.1f\" width=\"4.3\" height=\"5\" fill=\"", 556 + 4 * k, y - 7);
    colour_print(c, (k + 0.5) / 24);
    fprintf(c->out, "\"/>");
  }
  fprintf(c->out, "\n<text x=\"660\" y=\"%.1f\" font-size=\"12\">some, by their place</text>\n", y);
}

/* What the numbers are, and what is left out. */
static void remarks_draw(const struct canvas *c)
{
  const struct tt_picture *p = c->picture;
  fprintf(c->out, "<text x=\"12\" y=\"%.1f\" font-size=\"12\">%s", c->height - 16,
          p->messages ? "Below a round: elements of its messages, each." : "There are no messages.");
  if (p->shown < p->rounds) fprintf(c->out, " The first %d of %d rounds are shown.", (int)p->shown, (int)p->rounds);
  if (p->every > 1)
    fprintf(c->out, " Of %lld messages those of one rank in %d are shown.", (long long)p->messages, (int)p->every);
  fprintf(c->out, "</text>\n");
}

static void words_draw(const struct canvas *c, const struct tt_sim_caption *caption)
{
  fprintf(c->out, "<g fill=\"" INK "\">\n<text x=\"12\" y=\"28\" font-size=\"18\" font-weight=\"bold\">");
  text_print(c->out, caption->title);
  fprintf(c->out, "</text>\n<text x=\"12\" y=\"50\" font-size=\"13\" fill=\"#55636f\">");
  text_print(c->out, caption->note ? caption->note : "");
  fprintf(c->out, "</text>\n");
  legend_draw(c);
  remarks_draw(c);
  fprintf(c->out, "</g>\n");
}

tuttiResult_t tt_sim_draw(const struct tt_sim_play *play, const struct tt_sim_caption *caption, FILE *out)
{
  struct tt_picture picture;
  tuttiResult_t code = tt_picture_make(&picture, play);
  if (!code) {
    struct canvas c = canvas_of(&picture, out);
    fprintf(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" "
                 "height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" font-family=\"DejaVu Sans, Helvetica, sans-serif\">\n"
                 "<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n", c.width, c.height, c.width, c.height);
    bands_draw(&c, caption->group);
    ranks_draw(&c);
    rounds_draw(&c);
    arrows_draw(&c);
    marks_draw(&c);
    words_draw(&c, caption);
    fprintf(out, "</svg>\n");
    if (ferror(out)) code = tt_fail(tuttiSystemError, "cannot write a picture: %s", strerror(errno));
  }
  tt_picture_destroy(&picture);
  return code;
}
