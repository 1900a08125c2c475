/* SPDX-License-Identifier: BSD-3-Clause */
/* A time line as SVG 1.1, without scripts and styles from elsewhere. Lengths are in pixels. */
#include <math.h>

#include "plan/layers.h"

#define LEFT 110
#define WIDTH 1100 /* of the time line */
#define RIGHT 40
#define TOP 84
#define ROW 58
#define BAR 40
#define BOTTOM 54
#define MESSAGES_DRAWN 4000 /* more: those of one group that follow one another are one bar */
#define INK "#22313f"
#define PALE "#8a97a3"

enum row { BACKWARD, MESSAGES, FORWARD, ROWS };

struct canvas {
  FILE *out;
  const struct tt_planned *planned;
  const struct tt_layers *layers;
  double end_us;
};

static double x_of(const struct canvas *c, double us)
{
  return LEFT + (c->end_us > 0 ? us / c->end_us * WIDTH : 0);
}

/* Layers have colours from blue (the first) to orange. */
static void colour_print(const struct canvas *c, int32_t layer, char text[32])
{
  int32_t n = c->layers->net.n;
  double part = n > 1 ? (double)layer / (double)(n - 1) : 0;
  snprintf(text, 32, "#%02x%02x%02x", (int)(86 + part * 148), (int)(148 + part * 16), (int)(206 - part * 130));
}

/* With a label where there is room for it. */
static void bar_draw(const struct canvas *c, enum row row, double from_us, double to_us, int32_t layer)
{
  char colour[32];
  double x = x_of(c, from_us), width = x_of(c, to_us) - x, y = TOP + ROW * (double)row;
  colour_print(c, layer, colour);
  fprintf(c->out, "<rect x=\"%.2f\" y=\"%.0f\" width=\"%.2f\" height=\"%d\" fill=\"%s\" stroke=\"#ffffff\" "
          "stroke-width=\"%s\"/>\n", x, y, fmax(width, 0.3), BAR, colour, width > 3 ? "0.8" : "0");
}

static void label_draw(const struct canvas *c, enum row row, double from_us, double to_us, const char *text, int len)
{
  double x = x_of(c, from_us), width = x_of(c, to_us) - x;
  if (width < 7.0 * len + 4) return;
  fprintf(c->out, "<text x=\"%.2f\" y=\"%.0f\" font-size=\"11\" text-anchor=\"middle\" fill=\"" INK "\">%s</text>\n",
          x + width / 2, TOP + ROW * (double)row + BAR * 0.5 + 4, text);
}

static void layer_draw(const struct canvas *c, enum row row, double from_us, double to_us, int32_t layer)
{
  char text[16];
  int len = snprintf(text, sizeof text, "%d", (int)layer + 1);
  bar_draw(c, row, from_us, to_us, layer);
  label_draw(c, row, from_us, to_us, text, len);
}

/* Each layer's share of backward ends when its gradient is ready. */
static void backward_draw(const struct canvas *c)
{
  const struct tt_fusion_plan *plan = &c->planned->plan;
  double before_us = 0;
  for (int32_t i = 0; i < plan->ntensors; i++) {
    double ready_us = c->layers->net.tensors[plan->order[i]].ready_us;
    layer_draw(c, BACKWARD, before_us, ready_us, plan->order[i]);
    before_us = ready_us;
  }
}

static void message_draw(const struct canvas *c, const struct tt_played_message *first, double end_us)
{
  const struct tt_fusion_plan *plan = &c->planned->plan;
  const struct tt_fusion_group *group = &plan->groups[first->group];
  int32_t from = plan->order[group->first], to = plan->order[group->first + group->n - 1];
  char text[32];
  int len = group->n == 1 ? snprintf(text, sizeof text, "%d", (int)from + 1)
                          : snprintf(text, sizeof text, "%d..%d", (int)from + 1, (int)to + 1);
  bar_draw(c, MESSAGES, first->start_us, end_us, to);
  label_draw(c, MESSAGES, first->start_us, end_us, text, len);
}

static void messages_draw(const struct canvas *c)
{
  const struct tt_played *played = &c->planned->played;
  for (int64_t m = 0, next; m < played->nmessages; m = next) {
    const struct tt_played_message *first = &played->messages[m];
    for (next = m + 1; played->nmessages > MESSAGES_DRAWN && next < played->nmessages; next++)
      if (played->messages[next].group != first->group ||
          played->messages[next].start_us != played->messages[next - 1].end_us)
        break;
    message_draw(c, first, played->messages[next - 1].end_us);
  }
}

static void forward_draw(const struct canvas *c)
{
  for (int32_t l = 0; l < c->layers->net.n; l++) {
    double start_us = c->planned->played.forward_us[l];
    layer_draw(c, FORWARD, start_us, start_us + c->layers->net.tensors[l].forward_us, l);
  }
}

/* Eight or so round times. */
static void axis_draw(const struct canvas *c)
{
  double step = 1, y = TOP + ROWS * ROW - 4;
  while (step * 10 * 8 <= c->end_us) step *= 10;
  if (step * 5 * 8 <= c->end_us) step *= 5;
  else if (step * 2 * 8 <= c->end_us) step *= 2;
  int is_ms = c->end_us >= 10000;
  for (double us = 0; us <= c->end_us; us += step)
    fprintf(c->out, "<path d=\"M%.1f %dV%.0f\" stroke=\"#dfe5ea\"/><text x=\"%.1f\" y=\"%.0f\" font-size=\"11\" "
            "text-anchor=\"middle\" fill=\"" PALE "\">%g</text>\n", x_of(c, us), TOP - 8, y, x_of(c, us), y + 14,
            is_ms ? us / 1000 : us);
  fprintf(c->out, "<text x=\"%d\" y=\"%.0f\" font-size=\"11\" fill=\"" PALE "\">%s</text>\n", LEFT + WIDTH + 8, y + 14,
          is_ms ? "ms" : "us");
}

static void head_draw(const struct canvas *c, const char *cost_text)
{
  static const char *const names[ROWS] = {"backward", "messages", "next forward"};
  const struct tt_played *played = &c->planned->played;
  fprintf(c->out, "<text x=\"%d\" y=\"26\" font-size=\"17\" fill=\"" INK "\">%s: %.6g ms an iteration, %.6g ms of "
          "communication not hidden</text>\n", LEFT, c->planned->name,
          played->iteration_us / 1000, played->exposed_us / 1000);
  fprintf(c->out, "<text x=\"%d\" y=\"48\" font-size=\"12\" fill=\"" PALE "\">%d layers, numbered in forward order; %d "
          "groups in %lld messages, %s; %s; no plan takes less than %.6g ms</text>\n", LEFT, (int)c->layers->net.n,
          (int)c->planned->plan.ngroups, (long long)played->nmessages,
          c->planned->plan.by_priority ? "by priority" : "sent as they are ready", cost_text,
          c->planned->bound_us / 1000);
  for (int row = 0; row < ROWS; row++)
    fprintf(c->out, "<text x=\"%d\" y=\"%.0f\" font-size=\"13\" text-anchor=\"end\" fill=\"" INK "\">%s</text>\n",
            LEFT - 12, TOP + ROW * (double)row + BAR * 0.5 + 5, names[row]);
}

void tt_planned_draw(FILE *svg, const struct tt_planned *planned, const struct tt_layers *layers,
                     const char *cost_text)
{
  struct canvas c = {svg, planned, layers, fmax(planned->played.iteration_us, planned->played.messages_end_us)};
  int width = LEFT + WIDTH + RIGHT, height = TOP + ROWS * ROW + BOTTOM - ROW / 2;
  fprintf(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" "
          "font-family=\"sans-serif\">\n<rect width=\"%d\" height=\"%d\" fill=\"#ffffff\"/>\n", width, height, width,
          height, width, height);
  head_draw(&c, cost_text);
  axis_draw(&c);
  backward_draw(&c);
  messages_draw(&c);
  forward_draw(&c);
  fprintf(svg, "</svg>\n");
}
