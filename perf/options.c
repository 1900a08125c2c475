/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "perf.h"
#include "tutti_tools.h"

#define RANKS_MAX 65536
#define ROOT_MOST 16777215
#define NUMBER_MOST 1000000000
#define RADIX_MOST 65535 /* of TUTTI_RADIX */
#define TIMEOUT_MOST 2000000 /* s */
#define SIZE_MOST ((size_t)1 << 50) /* that much is nowhere, and can be reckoned with */

static const char *const help_ranks =
    "Flags, table and exit status are those of nccl-tests. Every process has THREADS x GPUS ranks, which are\n"
    "threads; start several processes with `tutti run -n N -- %s`, mpirun or torchrun.\n";

static const char *const help_flags =
    "  -t, --nthreads N       ranks as threads of each process (default 1)\n"
    "  -g, --ngpus N          the same, multiplied with -t (default 1)\n"
    "  -b, --minbytes SIZE    smallest size (default 32M); sizes take K, M, G, KiB and fractions\n"
    "  -e, --maxbytes SIZE    largest size (default 32M)\n"
    "  -i, --stepbytes SIZE   step between sizes (default 1M)\n"
    "  -f, --stepfactor F     factor between sizes instead (default 1: none)\n"
    "  -n, --iters N          timed iterations (default 20)\n"
    "  -m, --agg_iters N      operations per group in each iteration (default 1)\n"
    "  -w, --warmup_iters N   iterations before, not timed (default 1; at least 2 with TUTTI_EXPLAIN=1, which\n"
    "                         prints its line at the second call)\n"
    "  -N, --run_cycles N     repeat the sweep, 0: for ever (default 1)\n"
    "  -c, --check N          checked iterations per row, 0: none (default 1)\n"
    "  -d, --datatype TYPE    int8 uint8 int32 uint32 int64 uint64 half float double bfloat16\n"
    "                         f8e4m3 f8e5m2 int16 uint16 bool complex64 complex128\n"
    "                         or all (default float)\n"
    "  -a, --average N        time of 0: rank 0, 1: mean, 2: min, 3: max over ranks (default 1)\n"
    "  -T, --timeout S        a rank this late is an error (default: the library's)\n"
    "  -u, --unalign N        shift buffers by N elements\n"
    "  -I, --per_iter_timing 1  also p50 and p99: columns at the end of each half (all five in -J)\n"
    "  -K, --per_iter_skip N  do not count the first N iterations in p50 and p99\n"
    "  -J, --output_file F    JSON file; .0, .1 ... is appended if it exists\n"
    "      --transport LIST   allowed transports, e.g. tcp or shm,tcp\n"
    "      --buffers KIND     library (default): memory of tuttiMemAlloc, which other ranks of the host read without\n"
    "                         a copy; malloc: other memory, as most programs have\n"
    "      --stream 1         queue on a host stream instead of running on the calling thread\n";

static const char *const help_op =
    "  -o, --op OP            sum, prod, max, min, avg, and, or, xor, mulsum (odd ranks multiply theirs by 2 before\n"
    "                         the sum) or all (default sum)\n"
    "      --deterministic    the same bits for every size\n"
    "      --wire TYPE        type in which floats (-d float) travel: float, half or bfloat16 (default float)\n";

static const char *const help_codec =
    "      --codec X          use a fusion of one tensor with this codec: int8, qsgd:4, 1bit, dgc:0.99 ... (see\n"
    "                         tutti_fusion.h). Each iteration has new values, which are made while the clock stands:\n"
    "                         nearly normal with a deviation of 1, and one in 128 is 32 times as large. #wrong counts\n"
    "                         elements whose bits are not the same on all ranks\n";

static const char *const help_counts =
    "      --uneven           unequal shares: that of rank r is 2 r / (n - 1) times the size, so the first one is\n"
    "                         empty and the size is the average (all-to-all: r is the distance of two ranks; not in\n"
    "                         place)\n";

static const char *const help_root =
    "  -r, --root RANK        the root, or all: each rank in turn (default 0)\n";

static const char *const help_algo =
    "      --algo NAME        algorithm for every size (see `tutti info`)\n"
    "      --radix K          radix of algorithms that have one\n";

static int takes_codec(const struct collective *collective)
{
  return collective->algo_name && strcmp(collective->algo_name, "all_reduce") == 0;
}

static void help_print(const struct collective *collective)
{
  const char *program = program_invocation_short_name;
  int is_shared = (collective->in | collective->out) & PER_RANK;
  int reduces = collective_reduces(collective), has_root = collective_has_root(collective);
  printf("usage: %s [OPTION...]\n\nTimes %s on host memory and checks the results exactly.\n", program,
         collective->title);
  if (is_shared)
    printf("A size is that of all ranks' shares together; a share is a whole multiple of 16 bytes.\n");
  if (collective->never_in_place) printf("It cannot be done in place: that half of a row is the same once more.\n");
  if (collective->needs_power_of_two) printf("It needs a number of ranks that is a power of two.\n");
  printf(help_ranks, program);
  printf("\n%s%s%s%s%s%s", help_flags, reduces ? help_op : "", takes_codec(collective) ? help_codec : "",
         has_root ? help_root : "", collective->takes_counts ? help_counts : "",
         collective->algo_name ? help_algo : "");
  printf("  -h, --help             this text\n\n"
         "Accepted, but without effect: %s%s-p -z -y -G -C -S -R -x -D -V -M.\n"
         "Exit status: 0 if every element was right, and NCCL_TESTS_MIN_BW (GB/s) was reached if set; 1 if not, or\n"
         "after an error; 2 if an argument is wrong.\n",
         reduces ? "" : "-o ", has_root ? "" : "-r ");
}

static const struct option long_options[] = {{"nthreads", 1, 0, 't'},
                                             {"ngpus", 1, 0, 'g'},
                                             {"minbytes", 1, 0, 'b'},
                                             {"maxbytes", 1, 0, 'e'},
                                             {"stepbytes", 1, 0, 'i'},
                                             {"stepfactor", 1, 0, 'f'},
                                             {"iters", 1, 0, 'n'},
                                             {"agg_iters", 1, 0, 'm'},
                                             {"warmup_iters", 1, 0, 'w'},
                                             {"run_cycles", 1, 0, 'N'},
                                             {"check", 1, 0, 'c'},
                                             {"op", 1, 0, 'o'},
                                             {"datatype", 1, 0, 'd'},
                                             {"average", 1, 0, 'a'},
                                             {"timeout", 1, 0, 'T'},
                                             {"unalign", 1, 0, 'u'},
                                             {"per_iter_timing", 1, 0, 'I'},
                                             {"per_iter_skip", 1, 0, 'K'},
                                             {"output_file", 1, 0, 'J'},
                                             {"parallel_init", 1, 0, 'p'},
                                             {"root", 1, 0, 'r'},
                                             {"blocking", 1, 0, 'z'},
                                             {"stream_null", 1, 0, 'y'},
                                             {"cudagraph", 1, 0, 'G'},
                                             {"report_cputime", 1, 0, 'C'},
                                             {"report_timestamps", 1, 0, 'S'},
                                             {"local_register", 1, 0, 'R'},
                                             {"cta_policy", 1, 0, 'x'},
                                             {"device_implementation", 1, 0, 'D'},
                                             {"device_cta_count", 1, 0, 'V'},
                                             {"memory", 1, 0, 'M'},
                                             {"algo", 1, 0, 1},
                                             {"transport", 1, 0, 2},
                                             {"stream", 1, 0, 3},
                                             {"radix", 1, 0, 4},
                                             {"deterministic", 0, 0, 5},
                                             {"wire", 1, 0, 6},
                                             {"codec", 1, 0, 7},
                                             {"uneven", 0, 0, 8},
                                             {"buffers", 1, 0, 9},
                                             {"help", 0, 0, 'h'},
                                             {0}};

/* As getopt does: not where the caller has set opterr to 0. */
static __attribute__((format(printf, 1, 2))) void complain(const char *format, ...)
{
  va_list args;
  if (!opterr) return;
  fprintf(stderr, "%s: ", program_invocation_short_name);
  va_start(args, format);
  vfprintf(stderr, format, args);
  va_end(args);
}

/* "1.5M" to bytes; 0 with a message if it is none. */
static int size_parse(const char *flag, const char *text, size_t *bytes)
{
  if (tuttiReadSize(text, bytes) == tuttiSuccess && *bytes <= SIZE_MOST) return 1;
  complain("%s is \"%s\": give a whole number of bytes from 0 to %zu, like 8, 64K, 1.5M or 2GiB\n", flag, text,
           SIZE_MOST);
  return 0;
}

static int int_parse(const char *flag, const char *text, int low, int high, int *out)
{
  char *end;
  errno = 0;
  long value = strtol(text, &end, 10);
  if (errno || end == text || *end || value < low || value > high) {
    complain("%s is \"%s\": give a whole number from %d to %d\n", flag, text, low, high);
    return 0;
  }
  *out = (int)value;
  return 1;
}

static int switch_parse(const char *flag, const char *text, int *out)
{
  *out = strcmp(text, "1") == 0;
  if (*out || strcmp(text, "0") == 0) return 1;
  complain("%s is \"%s\": give 0 or 1\n", flag, text);
  return 0;
}

static int buffers_parse(const char *text, int *are_plain)
{
  *are_plain = strcmp(text, "malloc") == 0;
  if (*are_plain || strcmp(text, "library") == 0) return 1;
  complain("--buffers is \"%s\": give library or malloc\n", text);
  return 0;
}

static int average_parse(const char *text, int *out)
{
  *out = text[0] - '0';
  if (text[0] >= '0' && *out <= AVERAGE_MAX && !text[1]) return 1;
  complain("-a is \"%s\": give 0 (rank 0), 1 (mean), 2 (min) or 3 (max)\n", text);
  return 0;
}

static int name_parse(const char *flag, const char *text, const char *const *names, int n, int *out)
{
  if (strcmp(text, "all") == 0) {
    *out = -1;
    return 1;
  }
  for (int i = 0; i < n; i++)
    if (strcmp(names[i], text) == 0) {
      *out = i;
      return 1;
    }
  complain("%s is \"%s\": give all or one of", flag, text);
  for (int i = 0; i < n; i++) fprintf(stderr, " %s", names[i]);
  fprintf(stderr, "\n");
  return 0;
}

static int factor_parse(const char *text, double *factor)
{
  char *end;
  *factor = strtod(text, &end);
  int read = end != text && !*end && !strpbrk(text, "xX");
  if (read && *factor == 1) *factor = 0;
  else if (!read || !(*factor > 1) || *factor > NUMBER_MOST) {
    complain("-f is \"%s\": give a factor greater than 1, of at most %d, or 1 to step by -i\n", text, NUMBER_MOST);
    return 0;
  }
  return 1;
}

static int root_parse(const char *text, int *root)
{
  *root = -1;
  return strcmp(text, "all") == 0 || int_parse("-r", text, -1, ROOT_MOST, root);
}

static int wire_parse(const char *text, int *type)
{
  static const int types[] = {tuttiFloat32, tuttiFloat16, tuttiBfloat16};
  for (int i = 0; i < 3; i++)
    if (strcasecmp(text, type_names[types[i]]) == 0) {
      *type = types[i];
      return 1;
    }
  return 0;
}

static int wire_option(struct options *o)
{
  o->wire = optarg;
  if (wire_parse(optarg, &o->wire_type)) return 1;
  complain("--wire is \"%s\": give float, half or bfloat16\n", optarg);
  return 0;
}

/* The library reads it as TUTTI_RADIX; what is wrong is told as what it was given as. */
static int radix_take(struct options *o)
{
  int radix;
  o->radix = optarg;
  return int_parse("--radix", optarg, 0, RADIX_MOST, &radix);
}

/* Other values of TUTTI_WIRE_TYPE leave floats as they are, or are refused by the library. The line of TUTTI_EXPLAIN
 * is made in the second call of each shape, which is then not to be a timed one. */
static void settings_take(struct options *o)
{
  const char *wire = getenv("TUTTI_WIRE_TYPE"), *explain = getenv("TUTTI_EXPLAIN");
  if (wire && !o->wire) wire_parse(wire, &o->wire_type);
  if (explain && strcmp(explain, "1") == 0 && o->warmup_iters < 2) o->warmup_iters = 2;
}

/* 1: understood; 0: bad value, told already; -1: not one of these. */
static int size_option(struct options *o, int letter)
{
  switch (letter) {
  case 'b': return size_parse("-b", optarg, &o->min_bytes);
  case 'e': return size_parse("-e", optarg, &o->max_bytes);
  case 'i': return size_parse("-i", optarg, &o->step_bytes);
  case 'f': return factor_parse(optarg, &o->step_factor);
  case 'o': return name_parse("-o", optarg, op_names, OP_NONE, &o->op);
  case 'd': return name_parse("-d", optarg, type_names, tuttiNumTypes, &o->type);
  case 'J': o->json_file = optarg; return 1;
  case 'r': return root_parse(optarg, &o->root);
  case 1: o->algo = optarg; return 1;
  case 2: o->transport = optarg; return 1;
  case 4: return radix_take(o);
  case 5: o->deterministic = 1; return 1;
  case 6: return wire_option(o);
  case 7: o->codec = strcmp(optarg, "none") ? optarg : NULL; return 1;
  case 8: o->uneven = 1; return 1;
  case 9: return buffers_parse(optarg, &o->plain_buffers);
  default: return -1;
  }
}

static int number_option(struct options *o, int letter)
{
  switch (letter) {
  case 't': return int_parse("-t", optarg, 1, RANKS_MAX, &o->threads);
  case 'g': return int_parse("-g", optarg, 1, RANKS_MAX, &o->gpus);
  case 'n': return int_parse("-n", optarg, 1, NUMBER_MOST, &o->iters);
  case 'm': return int_parse("-m", optarg, 1, NUMBER_MOST, &o->agg_iters);
  case 'w': return int_parse("-w", optarg, 0, NUMBER_MOST, &o->warmup_iters);
  case 'N': return int_parse("-N", optarg, 0, NUMBER_MOST, &o->cycles);
  case 'c': return int_parse("-c", optarg, 0, NUMBER_MOST, &o->check);
  case 'a': return average_parse(optarg, &o->average);
  case 'T': return int_parse("-T", optarg, 0, TIMEOUT_MOST, &o->timeout_s);
  case 'u': return int_parse("-u", optarg, 0, NUMBER_MOST, &o->unalign);
  case 'I': return switch_parse("-I", optarg, &o->per_iteration);
  case 'K': return int_parse("-K", optarg, 0, NUMBER_MOST, &o->skip_iterations);
  case 3: return switch_parse("--stream", optarg, &o->stream);
  default: return -1;
  }
}

/* 0 with a message if the least bandwidth that the environment asks for is none. */
static int bandwidth_check(void)
{
  const char *text = getenv("NCCL_TESTS_MIN_BW");
  char *end = NULL;
  if (!text || (strtod(text, &end) >= 0 && strtod(text, NULL) < 1e9 && end != text && !*end)) return 1;
  complain("NCCL_TESTS_MIN_BW is \"%s\": give GB/s from 0 on, or unset it\n", text);
  return 0;
}

static int consistent(const struct options *o)
{
  if (o->min_bytes > o->max_bytes) complain("-b %zu is more than -e %zu\n", o->min_bytes, o->max_bytes);
  else if (o->step_factor == 0 && o->step_bytes == 0 && o->min_bytes != o->max_bytes)
    complain("-i is 0: give a step, or a factor with -f\n");
  else if (o->gpus > RANKS_MAX / o->threads)
    complain("-t %d times -g %d: at most %d ranks in a process are possible\n", o->threads, o->gpus, RANKS_MAX);
  else if (o->skip_iterations && (!o->per_iteration || o->skip_iterations >= o->iters))
    complain("-K is %d: it leaves out some of the %d iterations (-n) that -I 1 times one by one\n",
             o->skip_iterations, o->iters);
  else if (o->wire && !collective_reduces(o->collective))
    complain("--wire is \"%s\": what is not reduced travels as it is\n", o->wire);
  else if (o->codec && !takes_codec(o->collective))
    complain("--codec is \"%s\": only allreduce_perf takes one\n", o->codec);
  else if (o->codec && (o->type != tuttiFloat || (o->op != tuttiSum && o->op != tuttiAvg)))
    complain("--codec is \"%s\": codecs are for sum and avg (-o) of float (-d)\n", o->codec);
  else if (o->codec && (o->stream || o->agg_iters > 1))
    complain("--codec is \"%s\": a fusion is waited for: leave out --stream and -m\n", o->codec);
  else if (o->algo && !o->collective->algo_name)
    complain("--algo is \"%s\": messages between two ranks have no algorithm\n", o->algo);
  else if (o->uneven && !o->collective->takes_counts)
    complain("--uneven: %s has no counts for each rank\n", o->collective->title);
  else return 1;
  return 0;
}

static void ignore(struct options *o, int letter)
{
  size_t n = strlen(o->ignored);
  if (n + 1 < sizeof o->ignored && !strchr(o->ignored, letter)) o->ignored[n] = (char)letter;
}

/* Sets what `letter` stands for; 0 after a bad value. */
static int option_take(struct options *o, int letter)
{
  int understood = size_option(o, letter);
  if (understood < 0) understood = number_option(o, letter);
  int has_no_meaning = understood < 0 || (letter == 'o' && !collective_reduces(o->collective)) ||
                       (letter == 'r' && !collective_has_root(o->collective));
  if (has_no_meaning) ignore(o, letter);
  return understood != 0;
}

int options_parse(struct options *o, const struct collective *collective, int argc, char **argv)
{
  *o = (struct options){.collective = collective,
                        .program = program_invocation_short_name,
                        .threads = 1,
                        .gpus = 1,
                        .min_bytes = 32 << 20,
                        .max_bytes = 32 << 20,
                        .step_bytes = 1 << 20,
                        .iters = 20,
                        .agg_iters = 1,
                        .warmup_iters = 1,
                        .cycles = 1,
                        .check = 1,
                        .op = tuttiSum,
                        .type = tuttiFloat,
                        .wire_type = tuttiFloat32,
                        .average = AVERAGE_MEAN};
  int letter;
  while ((letter = getopt_long(argc, argv, "t:g:b:e:i:f:n:m:w:N:c:o:d:a:T:u:I:K:J:p:r:z:y:G:C:S:R:x:D:V:M:h",
                               long_options, NULL)) != -1) {
    if (letter == 'h') {
      help_print(collective);
      return 0;
    }
    if (letter == '?') {
      if (opterr) fputs("Try --help.\n", stderr);
      return 2;
    }
    if (!option_take(o, letter)) return 2;
  }
  if (optind < argc) {
    complain("\"%s\" is no option. Try --help.\n", argv[optind]);
    return 2;
  }
  settings_take(o);
  return consistent(o) && bandwidth_check() ? -1 : 2;
}
