/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti explain`: which algorithm is chosen, and why. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "codec/codec.h"
#include "explain/explain.h"

static const char *const help =
    "usage: tutti explain COLLECTIVE N ranks [N nodes] [N cores] SIZE [OPTION...]\n"
    "       tutti explain COLLECTIVE -n RANKS [--nodes N] [--cores N] --bytes SIZE [OPTION...]\n\n"
    "Prints the chosen algorithm and every other one with its predicted time, split into latency, bandwidth\n"
    "and reduction, or the reason why it cannot be chosen. Then it prints the origin of each price, the sizes at\n"
    "which the choice changes, and for an all-reduce between nodes the size at which ring and hierarchical take\n"
    "the same time.\n"
    "Settings (TUTTI_ALGO, TUTTI_TABLE, TUTTI_PROFILE, ...) count as in a job; `man tutti-settings` has the\n"
    "grammar of TUTTI_TABLE's file.\n\n"
#define TT_KIND(value, called, name, ...) " " name ","
    "COLLECTIVE is one of"
#include "base/collectives.def"
    "\n"
#undef TT_KIND
    "with or without _ or - between words.\n"
    "Words may be in any order. N nodes: the ranks are in equal blocks on them (default: 1). N cores: of each\n"
    "node (default: one for each rank, but on a single node at most those of this host). SIZE: the bytes of the\n"
    "whole vector in all-reduce, reduce and broadcast, else of one rank's share; it may end in K, M or G, or\n"
    "KiB, MiB, GiB.\n\n"
    "The chosen algorithm has a star. It need not be the first: the choice of the size before stays until another\n"
    "algorithm takes less than 97 % of its time. Predictions are for memory of malloc. The *_perf programs use\n"
    "memory of tuttiMemAlloc: compare with them by --memory tutti here, or --buffers malloc there.\n\n"
    "  -n, --ranks N         the number of ranks, as with the word\n"
    "      --nodes N         the number of nodes\n"
    "      --cores N         the number of cores of each node\n"
    "  -b, --bytes SIZE      the bytes, as SIZE\n"
    "  -d, --datatype TYPE   int8 uint8 int32 uint32 int64 uint64 half float double bfloat16\n"
    "                        f8e4m3 f8e5m2 int16 uint16 bool complex64 or\n"
    "                        complex128 (default: float)\n"
    "      --wire TYPE       the type in which floats travel in a reduction (-d float): float, half or\n"
    "                        bfloat16 (default: TUTTI_WIRE_TYPE, or float)\n"
    "      --codec X         predict also an all-reduce of floats with this codec (int8, qsgd:4, 1bit, dgc:0.99 ...),\n"
    "                        and the number of ranks from which on it is quicker without a codec (default: none)\n"
    "      --update TYPE     predict also a reduction to owners that update weights, with or without a codec; the\n"
    "                        weights travel as TYPE (float, half or bfloat16) in place of sums\n"
    "      --profile FILE    profile of the machine (default: TUTTI_PROFILE, or the built-in one)\n"
    "      --transport LIST  transports in order of preference, even if this host does not have them; after them\n"
    "                        those of TUTTI_TRANSPORTS that this host can use\n"
    "      --interface NAME  between nodes: of this host, or of the profile (default: the one this host would use)\n"
    "      --link GBITS,US   links between nodes have GBITS Gbit/s, and a short message takes US us (default: as the\n"
    "                        profile says; the built-in one was made on 1 Gbit/s)\n"
    "      --memory KIND     memory of the data on all ranks: malloc (default), or tutti for that of tuttiMemAlloc,\n"
    "                        which other ranks of the host read without a copy\n"
    "      --topology FILE   topology file, instead of nodes\n"
    "      --deterministic   only algorithms whose bits depend only on the values and the number of ranks\n"
    "  -h, --help            this text\n";

struct asked {
  struct tt_explain_request request;
  int has_bytes;
};

static int refuse(const char *what, const char *word)
{
  fprintf(stderr, "tutti explain: %s%s%s%s; try `tutti explain --help`\n", word ? "\"" : "", word ? word : "",
          word ? "\" " : "", what);
  return 2;
}

/* The field of the request that a number before this word sets; NULL: none. */
static int *counted_by(struct tt_explain_request *request, const char *word)
{
  static const char *const words[] = {"rank", "node", "core"};
  int *const counts[] = {&request->nranks, &request->nnodes, &request->cores};
  for (int w = 0; word && w < 3; w++) {
    size_t len = strlen(words[w]);
    if (strncmp(word, words[w], len) == 0 && (!word[len] || strcmp(word + len, "s") == 0)) return counts[w];
  }
  return NULL;
}

/* A number and what it counts; 0 after an error. */
static int count_take(int *count, char **word)
{
  size_t number = 0;
  int is_plain = !word[0][strspn(word[0], "0123456789")] && tuttiReadSize(word[0], &number) == tuttiSuccess;
  if (*count) return !refuse("is said twice", word[1]);
  if (is_plain && number >= 1 && number <= RANKS_MOST) {
    *count = (int)number;
    return 1;
  }
  fprintf(stderr, "tutti explain: the number of %s is \"%s\": give a whole one from 1 to %d\n", word[1], word[0],
          RANKS_MOST);
  return 0;
}

/* One word, or a number and what it counts; returns how many words, 0 after an error. */
static int words_take(struct asked *asked, char **word)
{
  size_t number;
  int is_size = tuttiReadSize(word[0], &number) == tuttiSuccess, is_name = isalpha((unsigned char)word[0][0]);
  int *count = is_name ? NULL : counted_by(&asked->request, word[1]);
  if (count) return count_take(count, word) ? 2 : 0;
  if (is_size && !asked->has_bytes && number <= SIZE_MOST) {
    asked->request.bytes = number;
    asked->has_bytes = 1;
    return 1;
  }
  if (is_name && !asked->request.collective) {
    asked->request.collective = word[0];
    return 1;
  }
  if (is_size && asked->has_bytes)
    refuse("is a second size: put ranks, nodes or cores behind a number of them", word[0]);
  else if (is_name && counted_by(&asked->request, word[0]))
    refuse("stands behind its number: say `4 ranks`, `2 nodes` or `8 cores`", word[0]);
  else if (is_name) refuse("means nothing here", word[0]);
  else refuse("is no size: give a whole number of bytes from 0 to 2^60, such as 4096, 64K, 1.5M or 2GiB", word[0]);
  return 0;
}

/* Options say the same as words, as in other commands. 1: taken; 0: wrong, as was said; -1: it is none of these. */
static int count_option(struct asked *asked, int option)
{
  const long long counts[] = {1, RANKS_MOST}, sizes[] = {0, SIZE_MOST};
  const char *const names[] = {"--ranks", "--nodes", "--cores"};
  int *const fields[] = {&asked->request.nranks, &asked->request.nnodes, &asked->request.cores};
  static const char letters[] = "nNC";
  const char *at = option == '?' ? NULL : strchr(letters, option);
  long long number;
  if (option == 'b') {
    if (!number_read("explain", "--bytes", SIZE, sizes, &number)) return 0;
    asked->request.bytes = (size_t)number;
    asked->has_bytes = 1;
    return 1;
  }
  if (!at) return -1;
  if (!number_read("explain", names[at - letters], DIGITS, counts, &number)) return 0;
  *fields[at - letters] = (int)number;
  return 1;
}

/* Names a wrong profile, topology or collective before what is missing; the exit status. */
static int ask(const struct asked *asked, const char *missing)
{
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  tuttiResult_t result = tt_explain_check(&asked->request);
  return result == tuttiSuccess ? refuse(missing, NULL) : refusal_say("explain", result);
}

/* -1: go on; else the exit status. */
static int arguments_parse(struct asked *asked, int argc, char **argv)
{
  static const struct option options[] = {{"datatype", required_argument, NULL, 'd'},
                                          {"wire", required_argument, NULL, 'w'},
                                          {"codec", required_argument, NULL, 'c'},
                                          {"update", required_argument, NULL, 'u'},
                                          {"profile", required_argument, NULL, 'p'},
                                          {"transport", required_argument, NULL, 't'},
                                          {"interface", required_argument, NULL, 'i'},
                                          {"memory", required_argument, NULL, 'm'},
                                          {"topology", required_argument, NULL, 'T'},
                                          {"link", required_argument, NULL, 'l'},
                                          {"deterministic", no_argument, NULL, 'D'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"nodes", required_argument, NULL, 'N'},
                                          {"cores", required_argument, NULL, 'C'},
                                          {"bytes", required_argument, NULL, 'b'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  int option, taken = 0;
  optind = 1;
  while ((option = getopt_long(argc, argv, "d:n:b:h", options, NULL)) != -1) switch (option) {
    case 'c': asked->request.codec = tt_codec_is_none(optarg) ? NULL : optarg; break;
    case 'u': asked->request.update = optarg; break;
    case 'p': asked->request.profile = optarg; break;
    case 't': asked->request.transports = optarg; break;
    case 'i': asked->request.interface = optarg; break;
    case 'l':
      if (!link_read("explain", &asked->request.link_gbits, &asked->request.link_us)) return 2;
      break;
    case 'm': asked->request.memory = optarg; break;
    case 'T': asked->request.topology = optarg; break;
    case 'd': asked->request.type = optarg; break;
    case 'w': asked->request.wire_type = optarg; break;
    case 'D': asked->request.deterministic = 1; break;
    case 'h': fputs(help, stdout); return 0;
    default:
      if (!(taken = count_option(asked, option))) return 2;
      if (taken < 0) return usage_point("explain");
    }
  for (int a = optind; a < argc; a += taken)
    if (!(taken = words_take(asked, argv + a))) return 2;
  if (!asked->request.collective)
    return ask(asked, "no collective is named: say `tutti explain allreduce 4 ranks 1M`");
  if (!asked->request.nranks && !asked->request.topology)
    return ask(asked, "the number of ranks is missing: say `4 ranks` or -n 4");
  if (!asked->has_bytes) return ask(asked, "the size is missing: say `1M` or --bytes 1M");
  return -1;
}

int command_explain(int argc, char **argv)
{
  struct asked asked = {.has_bytes = 0};
  int parsed = arguments_parse(&asked, argc, argv);
  if (parsed >= 0) return parsed;
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  FILE *held = held_open();
  if (!held) return 1;
  progress_begin("explain", "pricing all algorithms");
  tuttiResult_t result = tt_explain(&asked.request, held);
  progress_end();
  int broken = held_print(held);
  return result == tuttiSuccess ? broken : refusal_say("explain", result);
}
