/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "kernels.h"

static const char *const help =
    "usage: kernel_perf [OPTION...]\n\n"
    "Measures the reduce kernels on one core, and the speed of memory in the same run.\n\n"
    "A level is a working set: half of the L1 and of the L2 cache, a quarter of L3, four times L3 for memory; their\n"
    "sizes come from the machine and are printed. At each level three limits are measured, each in several ways\n"
    "(memcpy, plain and non-temporal stores, vectors of all widths of this CPU), of which the fastest counts:\n"
    "  copy        b = a\n"
    "  add         c = a + b, fp32\n"
    "  accumulate  a += b, fp32\n"
    "GB/s are 10^9 bytes per second. A call's bytes are those that it reads and writes: each source once, each\n"
    "destination once; cache lines that a store reads before it writes them do not count. So a ratio is the time of\n"
    "the limit for as many bytes / the time of the kernel. Rounds are interleaved; figures are medians.\n\n"
    "      --types LIST     int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2\n"
    "                       int16 uint16 bool complex64 complex128\n"
    "                       (default all); lists are separated by commas or blanks\n"
    "      --ops LIST       sum prod max min avg and or xor mulsum (default all); mulsum: one source is\n"
    "                       multiplied first\n"
    "      --levels LIST    L1 L2 L3 memory (default all)\n"
    "      --sources LIST   numbers of sources from 1 to 16 (default 1,2,4)\n"
    "      --table NAME     kernels of this instruction set, as TUTTI_KERNELS has it, or all (default the fastest)\n"
    "      --headline       only the most important figures, each as a ratio\n"
    "      --quick          fewer rounds, and only sums of half, float, bfloat16 and f8e4m3 unless options say others\n"
    "      --minutes M      about how long all may take (default 5; with --quick 0.2, which is 12 s); if the machine\n"
    "                       becomes busy there are fewer rounds\n"
    "      --csv FILE       write every measurement, with smallest and largest time\n"
    "      --svg FILE       draw the ratios (needs python3)\n"
    "  -h, --help           this text\n\n"
    "Column shape: the number of sources, and\n"
    "  :scaled      one source is multiplied and rounded first (avg of floats and mulsum)\n"
    "  :divided     by the number of ranks, as avg of integers ends\n"
    "  :from-float  the last source has fp32 elements (1: a conversion)\n"
    "  :to-float    the destination has (1: a conversion)\n"
    "  :both-float  the first source and the destination have\n"
    "  :also        a second destination gets the same\n"
    "Column place: in, if the destination is the first source; else out. Column own: the limit that moves memory in\n"
    "the same way. Table loop is a plain loop over fp16 compiled with -O3 for no CPU in particular.\n";

enum { TYPES = 1, OPS, LEVELS_, SOURCES, TABLE, HEADLINE, QUICK, MINUTES, CSV, SVG };

static const struct option long_options[] = {
    {"types", 1, 0, TYPES},       {"ops", 1, 0, OPS},           {"levels", 1, 0, LEVELS_}, {"sources", 1, 0, SOURCES},
    {"table", 1, 0, TABLE},       {"headline", 0, 0, HEADLINE}, {"quick", 0, 0, QUICK},    {"minutes", 1, 0, MINUTES},
    {"csv", 1, 0, CSV},           {"svg", 1, 0, SVG},           {"help", 0, 0, 'h'},       {0}};

void complain(const char *format, ...)
{
  va_list args;
  fprintf(stderr, "kernel_perf: ");
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
  fputc('\n', stderr);
}

static const char *number_name(int n)
{
  static const char *const names[SOURCES_MAX + 1] = {"",  "1", "2",  "3",  "4",  "5",  "6",  "7", "8",
                                                     "9", "10", "11", "12", "13", "14", "15", "16"};
  return names[n];
}

static const char *level_name(int level)
{
  return level_names[level];
}

/* The bit of a name; all of them for "all"; 0: unknown. */
static unsigned name_bits(const char *text, size_t len, const char *(*name)(int), int n)
{
  unsigned all = 0;
  for (int i = 0; i < n; i++) {
    if (name(i)[0]) all |= 1u << i;
    if (strlen(name(i)) == len && !strncmp(name(i), text, len)) return 1u << i;
  }
  return len == 3 && !strncmp(text, "all", 3) ? all : 0;
}

/* The names of a list as bits; 0 if one is unknown, which is told. n: how many there are. */
static int list_parse(const char *flag, const char *text, const char *(*name)(int), int n, unsigned *out)
{
  char known[256] = "";
  unsigned bits = 0;
  const char *at = text + strspn(text, ", ");
  while (*at) {
    size_t len = strcspn(at, ", ");
    unsigned found = name_bits(at, len, name, n);
    if (!found) break;
    bits |= found;
    at += len + strspn(at + len, ", ");
  }
  if (bits && !*at) {
    *out = bits;
    return 1;
  }
  for (int i = 0; i < n; i++)
    if (name(i)[0]) snprintf(known + strlen(known), sizeof known - strlen(known), " %s", name(i));
  complain("%s is \"%s\": give all or some of%s", flag, text, known);
  return 0;
}

static int table_parse(const char *text, const char **out)
{
  char known[128] = "";
  *out = text;
  if (!strcmp(text, "all")) return 1;
  for (int i = 0; tt_reduce_tables[i]; i++) {
    if (!tt_reduce_tables[i]->usable()) continue;
    if (!strcmp(tt_reduce_tables[i]->name, text)) return 1;
    snprintf(known + strlen(known), sizeof known - strlen(known), " %s", tt_reduce_tables[i]->name);
  }
  complain("--table is \"%s\": this library on this CPU has all or one of%s", text, known);
  return 0;
}

static int minutes_parse(const char *text, double *out)
{
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  if (!errno && end != text && !*end && *out > 0 && *out <= 10000) return 1;
  complain("--minutes is \"%s\": give a number above 0, at most 10000", text);
  return 0;
}

/* 0 after a bad value. */
static int option_take(struct options *o, int option)
{
  switch (option) {
  case TYPES: return list_parse("--types", optarg, tt_type_name, tuttiNumTypes, &o->types);
  case OPS: return list_parse("--ops", optarg, tt_redop_name, TT_REDOPS, &o->ops);
  case LEVELS_: return list_parse("--levels", optarg, level_name, LEVELS, &o->levels);
  case SOURCES: return list_parse("--sources", optarg, number_name, SOURCES_MAX + 1, &o->sources);
  case TABLE: return table_parse(optarg, &o->table);
  case MINUTES: return minutes_parse(optarg, &o->minutes);
  case HEADLINE: o->headline = 1; return 1;
  case QUICK: o->quick = 1; return 1;
  case CSV: o->csv = optarg; return 1;
  default: o->svg = optarg; return 1;
  }
}

/* Sets the options that were not given. */
static void defaults_set(struct options *o)
{
  const unsigned few = 1u << tuttiFloat16 | 1u << tuttiFloat32 | 1u << tuttiBfloat16 | 1u << tuttiFloat8e4m3;
  if (!o->types) o->types = o->quick ? few : (1u << tuttiNumTypes) - 1;
  if (!o->ops) o->ops = o->quick ? 1u << tuttiSum : (1u << TT_REDOPS) - 1;
  if (!o->levels) o->levels = (1u << LEVELS) - 1;
  if (!o->sources) o->sources = 1u << 1 | 1u << 2 | 1u << 4;
  if (o->minutes <= 0) o->minutes = o->quick ? 0.2 : 5;
}

static int consistent(const struct options *o)
{
  if (o->headline && (o->types || o->ops || o->levels || o->sources))
    complain("--headline is a list of its own: leave out --types, --ops, --levels and --sources");
  else if (o->headline && o->svg) complain("--headline has nothing to draw: leave out --svg");
  else return 1;
  return 0;
}

int options_parse(struct options *o, int argc, char **argv)
{
  int option;
  *o = (struct options){.table = NULL};
  opterr = 0;
  while ((option = getopt_long(argc, argv, ":h", long_options, NULL)) != -1) {
    if (option == 'h') {
      fputs(help, stdout);
      return 0;
    }
    if (option == '?' || option == ':') {
      if (option == '?' && optopt > ' ') complain("-%c is not understood: try --help", optopt);
      else complain("%s %s: try --help", argv[optind - 1], option == ':' ? "wants a value" : "is not understood");
      return 2;
    }
    if (!option_take(o, option)) return 2;
  }
  if (optind < argc) {
    complain("\"%s\" is no option: try --help", argv[optind]);
    return 2;
  }
  if (!consistent(o)) return 2;
  defaults_set(o);
  return -1;
}
