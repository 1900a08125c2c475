/* SPDX-License-Identifier: BSD-3-Clause */
/* The list of what is timed. */
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

static const char *const form_names[FORMS] = {"", ":scaled", ":divided", ":from-float", ":to-float", ":both-float",
                                              ":also"};

static int is_half(int type)
{
  return type == tuttiFloat16 || type == tuttiBfloat16;
}

/* Forms make sense where the kernels have work of their own in them. Conversions with other operations than sums
 * would be measured for nothing: they are done while loading and storing. */
static int is_sensible(const struct subject *subject)
{
  int scales = tt_reduce_scales(subject->op, subject->type), several = subject->nsrc > 1;
  int converts = is_half(subject->type) && subject->nsrc <= 2 && (subject->op == tuttiSum || scales);
  if (tt_redop_lacks(subject->op, subject->type)) return 0;
  switch (subject->form) {
  case WHOLE: return several && !scales;
  case SCALED: return scales;
  case DIVIDED: return !several && tt_reduce_finishes(subject->op, subject->type, 2);
  case FROM_FLOAT: return converts && (several || !subject->in_place);
  case TO_FLOAT: return converts && !subject->in_place;
  case BOTH_FLOAT: return converts && several;
  case ALSO: return subject->nsrc == 2 && subject->op == tuttiSum;
  default: return 0;
  }
}

/* The bits of 1/2, of integers 3; of complex types those of a part. */
static uint64_t scalar_of(int type)
{
  double half = 0.5;
  uint64_t bits = 3;
  type = tt_type_part(type);
  if (type == tuttiFloat64) memcpy(&bits, &half, sizeof bits);
  else if (tt_type_is_float(type)) bits = tt_float_from_fp32(type, 0.5f);
  return bits;
}

static void args_make(struct item *item, const struct subject *subject)
{
  struct tt_reduce_arg *arg = &item->args[0];
  int wide = subject->form == FROM_FLOAT ? subject->nsrc - 1 : subject->form == BOTH_FLOAT ? 0 : -1;
  int scaled = subject->form == WHOLE || subject->form == ALSO ? -1 : wide < 0 ? 0 : wide;
  tt_reduce_arg_make(arg, subject->op, subject->type, 2, scalar_of(subject->type), scaled);
  if (subject->form == DIVIDED) tt_reduce_arg_finish(arg, 3);
  arg->wide = wide;
  arg->dst_wide = subject->form == TO_FLOAT || subject->form == BOTH_FLOAT;
  item->args[1] = *arg;
  /* 1/2 and 2 in turn, or what is scaled in its place dwindles to numbers that are slow. */
  if (subject->nsrc == 1 && subject->in_place) item->args[1].scale = 2;
}

/* Adds a copy of *item; returns its number. */
static int add(struct items *items, const struct item *item)
{
  if (items->n % 64 == 0) {
    struct item *list = realloc(items->list, (size_t)(items->n + 64) * sizeof *list);
    if (!list) {
      complain("no memory for %d items", items->n + 64);
      exit(1);
    }
    items->list = list;
  }
  items->list[items->n] = *item;
  return items->n++;
}

int item_add(struct items *items, const struct tt_reduce_table *table, const struct subject *subject, unsigned levels)
{
  struct item item = {.table = table->name, .op = tt_redop_name(subject->op), .type = subject->type,
                      .nsrc = subject->nsrc, .in_place = subject->in_place, .form = subject->form, .levels = levels,
                      .run = table->kernels[subject->op][subject->type]};
  if (!is_sensible(subject)) return -1;
  snprintf(item.shape, sizeof item.shape, "%d%s", subject->nsrc, form_names[subject->form]);
  item.own = subject->in_place ? ACCUMULATE : subject->nsrc == 1 ? COPY : ADD;
  item.is_refilled = subject->form == DIVIDED && subject->in_place; /* numbers would soon be 0, which divide faster */
  args_make(&item, subject);
  for (int k = 0; k < item.nsrc; k++)
    item.source_bytes[k] = tt_type_size(k == item.args[0].wide ? tuttiFloat32 : item.type);
  item.dst_bytes = tt_type_size(item.args[0].dst_wide ? tuttiFloat32 : item.type);
  item.also_bytes = subject->form == ALSO ? tt_type_size(item.type) : 0;
  return add(items, &item);
}

int item_add_passes(struct items *items, const struct tt_reduce_table *table, int type, int nsrc, unsigned levels)
{
  int n = item_add(items, table, &(struct subject){type, tuttiSum, nsrc, 0, WHOLE}, levels);
  items->list[n].kind = PASSES;
  items->list[n].table = "passes";
  return n;
}

int item_add_loop(struct items *items, unsigned levels)
{
  struct item item = {.kind = LOOP, .table = "loop", .op = "sum", .shape = "2", .type = tuttiFloat16, .nsrc = 2,
                      .own = ADD, .levels = levels, .run = loop_fp16_sum, .source_bytes = {2, 2}, .dst_bytes = 2,
                      .args = {tt_reduce_plainly, tt_reduce_plainly}};
  return add(items, &item);
}

void item_add_limits(struct items *items, unsigned levels)
{
  for (const struct variant *variant = limit_variants; variant->name; variant++) {
    struct item item = {.kind = LIMIT, .table = "limit", .op = limit_names[variant->limit], .type = tuttiFloat32,
                        .nsrc = variant->limit == COPY ? 1 : 2, .in_place = variant->limit == ACCUMULATE,
                        .own = variant->limit, .levels = levels, .run = variant->run,
                        .args = {tt_reduce_plainly, tt_reduce_plainly}, .source_bytes = {4, 4}, .dst_bytes = 4};
    snprintf(item.shape, sizeof item.shape, "%s", variant->name);
    if (variant->is_usable()) add(items, &item);
  }
}

size_t item_moves(const struct item *item)
{
  size_t bytes = item->dst_bytes + item->also_bytes;
  for (int k = 0; k < item->nsrc; k++) bytes += item->source_bytes[k];
  return bytes;
}

size_t item_occupies(const struct item *item)
{
  return item_moves(item) - (item->in_place ? item->dst_bytes : 0);
}

int table_is_wanted(const struct options *options, const struct tt_reduce_table *table)
{
  if (!table->usable()) return 0;
  if (!options->table) return table == tt_reduce_table();
  return !strcmp(options->table, "all") || !strcmp(options->table, table->name);
}

/* All numbers of sources, forms and places. */
static void items_of(struct items *items, const struct tt_reduce_table *table, int type, int op,
                     const struct options *options)
{
  for (int i = 0; i < SOURCES_MAX * FORMS * 2; i++) {
    struct subject subject = {type, op, i / (FORMS * 2) + 1, i % 2, (enum form)(i / 2 % FORMS)};
    if (options->sources >> subject.nsrc & 1) item_add(items, table, &subject, options->levels);
  }
}

static void items_of_type(struct items *items, int type, const struct options *options)
{
  for (int t = 0; tt_reduce_tables[t]; t++)
    for (int op = 0; op < TT_REDOPS && table_is_wanted(options, tt_reduce_tables[t]); op++)
      if (options->ops >> op & 1) items_of(items, tt_reduce_tables[t], type, op, options);
  int has_loop = type == tuttiFloat16 && options->ops >> tuttiSum & 1 && options->sources >> 2 & 1;
  if (has_loop) item_add_loop(items, options->levels);
}

void items_make(struct items *items, const struct options *options)
{
  *items = (struct items){NULL, 0};
  item_add_limits(items, options->levels);
  for (int type = 0; type < tuttiNumTypes; type++)
    if (options->types >> type & 1) items_of_type(items, type, options);
}
