/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti plan`: which gradients go together, and when. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "codec/codec.h"
#include "plan/plan.h"

#define ALPHA_MOST 1e12 /* us, as tt_plan_print has them */
#define BETA_MOST 1e6
#define CHANNELS_MOST 64

static const char *const help =
    "usage: tutti plan FILE.csv --ranks N [--policy POLICY] [OPTION...]\n"
    "       tutti plan FILE.csv --cost A_US,B_US_PER_BYTE [--policy POLICY] [OPTION...]\n\n"
    "Plans the messages in which the gradients of a network are reduced: which layers go together, when each\n"
    "message begins and ends, and how long an iteration takes, which is backward and the next forward. One message\n"
    "is in flight at a time; with --gap the slices of p3, fifo, auto and --slice overlap.\n\n"
    "The first line of FILE.csv names the columns. There must be layer_index (1, 2, ... in forward order),\n"
    "params (floats of 4 bytes), bwd_time_us and fwd_time_us; each other line is a layer.\n\n"
    "policies (except with p3 and auto the next forward begins when all messages have ended):\n"
    "  wfbp              each layer alone\n"
    "  single            all together when backward has ended (SyncEASGD)\n"
    "  threshold:BYTES[,FIRST]  a message is closed when it has BYTES, the first one when it has FIRST;\n"
    "                    DistributedDataParallel has threshold:25M,1M\n"
    "  horovod:BYTES     all that is ready when no message is under way, up to BYTES; Horovod has horovod:128M\n"
    "  mgwfbp            neighbours are merged if that saves time (MG-WFBP: Algorithm 1 of Shi and Chu, with\n"
    "                    corrected indices)\n"
    "  optimal           the merge of neighbours, sent in the order of backward, that ends earliest\n"
    "  p3[:PARAMETERS[,CREDIT]]  each layer alone, in slices (default: 50000); the layer that forward needs first\n"
    "                    goes first, and forward of a layer waits only for its own gradient; with --gap\n"
    "                    another slice begins while fewer than CREDIT bytes are in flight (default: as many as\n"
    "                    the links carry in the time of one slice; 0: one slice at a time)\n"
    "  fifo[:PARAMETERS[,CREDIT]]  likewise, but sent as gradients are ready\n"
    "  auto              merging, slices and priority together, for nearly the shortest iteration found:\n"
    "                    up to a hundredth longer where that saves messages, but not longer than p3 or optimal\n"
    "  all               a line for each of these\n"
    "  server[:PARAMETERS[,CREDIT]]  p3 with parameter servers: a slice is pushed, updated and sent back, while\n"
    "                    other slices are; with --ranks each rank is a server, with --cost others are\n\n";
static const char *const options_help =
    "      --policy POLICY   one of these (default: all); BYTES, FIRST, PARAMETERS and CREDIT may be 50000, 64K,\n"
    "                        1.5M or 2GiB; K, M and G are powers of 1,024\n"
    "      --cost A,B[,U]    a message of m bytes takes A + B m us; --ranks does not count then. A server's\n"
    "                        update of m bytes takes U m us (default: 0)\n"
    "  -n, --ranks N         a message is an all-reduce of N ranks, and takes what `tutti explain` predicts\n"
    "      --nodes N         over which they are spread in blocks (default: each has its own)\n"
    "      --profile FILE    profile of the machine (default: TUTTI_PROFILE, or the built-in one)\n"
    "      --transport LIST  transports (default: those of TUTTI_TRANSPORTS that this host can use)\n"
    "      --interface NAME  between nodes: of this host, or of the profile (default: the one this host would use)\n"
    "      --link GBITS,US   links between nodes have GBITS Gbit/s, and a short message takes US us (default: as the\n"
    "                        profile says; the built-in one was made on 1 Gbit/s)\n"
    "      --gap US          the part of the start-up time A of a message in which it keeps the links busy; in the\n"
    "                        rest of A they carry bytes of other messages (default: all of A, so nothing overlaps)\n"
    "      --channels N      at most N messages in flight, with --gap (default: 8)\n"
    "      --slice N         messages of every policy go in slices of N parameters (50000, 64K, ...) and by\n"
    "                        priority; with all only those of p3, fifo and auto\n"
    "      --codec X         layers of 1024 parameters or more travel by this codec (int8, 1bit, ...; default:\n"
    "                        none); with --ranks\n"
    "      --update TYPE     owners update weights, and send these as float or half\n"
    "      --json            print policy, groups (layers from 1 on, in the order sent), iteration_us and\n"
    "                        bound_us, a time that no plan can beat\n"
    "      --svg FILE        draw the time line: backward, messages, next forward; with all, auto's (by python3)\n"
    "      --data            print what --svg draws, as JSON for `tutti draw`\n"
    "  -h, --help            this text\n\n"
    "A line of the plan is a message, or several slices of one group in a row. It has the first message's number,\n"
    "the layers and the bytes, and three times from the beginning of backward on: when the last of its gradients is\n"
    "ready, when the first slice begins, and when the last one ends.\n";

struct asked {
  struct tt_plan_request request;
  const char *svg;
  int data;
};

/* "A,B[,U]"; 0 and a message if it is none. */
static int cost_read(struct tt_plan_request *request)
{
  const char *at = optarg;
  request->has_cost = 1;
  request->turn_us_per_byte = 0;
  if (decimal_read(&at, 0, ALPHA_MOST, &request->alpha_us) && *at++ == ',' &&
      decimal_read(&at, 0, BETA_MOST, &request->beta_us_per_byte) &&
      (!*at || (*at++ == ',' && decimal_read(&at, 0, BETA_MOST, &request->turn_us_per_byte) && !*at)))
    return 1;
  fprintf(stderr, "tutti plan: --cost is \"%s\": give A,B: the us of a message, from 0 to %g, and the us of each byte, "
          "from 0 to %g, as in 45.26,0.0008; a third number is a server's us of each byte\n",
          optarg, ALPHA_MOST, BETA_MOST);
  return 0;
}

static int gap_read(struct tt_plan_request *request)
{
  const char *at = optarg;
  request->has_gap = 1;
  if (decimal_read(&at, 0, ALPHA_MOST, &request->gap_us) && !*at) return 1;
  fprintf(stderr, "tutti plan: --gap is \"%s\": give us, from 0 to %g\n", optarg, ALPHA_MOST);
  return 0;
}

static int count_read(const char *option, int *count)
{
  long long number;
  if (!number_read("plan", option, DIGITS, (const long long[]){1, RANKS_MOST}, &number)) return 0;
  *count = (int)number;
  return 1;
}

/* 1: taken; 0: wrong, as was said; -1: it is --help or no option. */
static int option_take(struct asked *asked, int option)
{
  struct tt_plan_request *request = &asked->request;
  long long number = 0;
  int is_fine;
  switch (option) {
  case 'P': request->policy = optarg; break;
  case 'c': return cost_read(request);
  case 'n': return count_read("--ranks", &request->nranks);
  case 'N': return count_read("--nodes", &request->nnodes);
  case 's':
    is_fine = number_read("plan", "--slice", SIZE, (const long long[]){1, SIZE_MOST}, &number);
    request->slice = (size_t)number;
    return is_fine;
  case 'l': return link_read("plan", &request->link_gbits, &request->link_us);
  case 'g': return gap_read(request);
  case 'C':
    is_fine = number_read("plan", "--channels", DIGITS, (const long long[]){1, CHANNELS_MOST}, &number);
    request->channels = (int)number;
    return is_fine;
  case 'p': request->profile = optarg; break;
  case 't': request->transports = optarg; break;
  case 'i': request->interface = optarg; break;
  case 'X': request->codec = tt_codec_is_none(optarg) ? NULL : optarg; break;
  case 'u': request->update = optarg; break;
  case 'j': request->json = 1; break;
  case 'S': asked->svg = optarg; break;
  case 'd': asked->data = 1; break;
  default: return -1;
  }
  return 1;
}

static int refuse(const char *what)
{
  fprintf(stderr, "tutti plan: %s; try `tutti plan --help`\n", what);
  return 2;
}

/* Names a wrong table or policy first; the exit status. */
static int cost_ask(const struct tt_plan_request *request)
{
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  tuttiResult_t result = tt_plan_check(request);
  if (result == tuttiSuccess) return refuse("nothing says what a message costs: give --cost or --ranks");
  return refusal_say("plan", result);
}

/* --cost has said all: what else would say it does not count. */
static void ranks_leave(struct tt_plan_request *request)
{
  if (request->nranks || request->nnodes || request->profile || request->transports || request->interface ||
      request->link_gbits > 0)
    fprintf(stderr, "tutti plan: --cost says what a message takes: ranks, nodes, links and profiles do not count\n");
  request->nranks = request->nnodes = 0;
  request->profile = request->transports = request->interface = NULL;
}

/* -1: go on; else the exit status. */
static int arguments_parse(struct asked *asked, int argc, char **argv)
{
  static const struct option options[] = {{"policy", required_argument, NULL, 'P'},
                                          {"cost", required_argument, NULL, 'c'},
                                          {"ranks", required_argument, NULL, 'n'},
                                          {"nodes", required_argument, NULL, 'N'},
                                          {"profile", required_argument, NULL, 'p'},
                                          {"transport", required_argument, NULL, 't'},
                                          {"interface", required_argument, NULL, 'i'},
                                          {"link", required_argument, NULL, 'l'},
                                          {"gap", required_argument, NULL, 'g'},
                                          {"channels", required_argument, NULL, 'C'},
                                          {"slice", required_argument, NULL, 's'},
                                          {"codec", required_argument, NULL, 'X'},
                                          {"update", required_argument, NULL, 'u'},
                                          {"json", no_argument, NULL, 'j'},
                                          {"svg", required_argument, NULL, 'S'},
                                          {"data", no_argument, NULL, 'd'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  struct tt_plan_request *request = &asked->request;
  int option;
  optind = 1;
  while ((option = getopt_long(argc, argv, "n:h", options, NULL)) != -1) {
    int taken = option_take(asked, option);
    if (taken == 0) return 2;
    if (taken > 0) continue;
    if (option != 'h') return usage_point("plan");
    printf("%s%s", help, options_help);
    return 0;
  }
  if (optind == argc) return refuse("no layer table is given: FILE.csv");
  if (optind + 1 < argc) return refuse("one layer table at a time");
  request->table = argv[optind];
  if (!request->policy) request->policy = "all";
  if (!request->has_cost && !request->nranks) return cost_ask(request);
  if (request->has_cost) ranks_leave(request);
  return -1;
}

/* Prints to `out` unless only data is asked for, and data to `data` where somebody wants it. The exit status. */
static int plan_make(const struct asked *asked, FILE *out, FILE *data)
{
  progress_begin("plan", "pricing messages and planning them");
  tuttiResult_t result = tt_plan_print(&asked->request, asked->data ? NULL : out, asked->data ? out : data);
  progress_end();
  return result == tuttiSuccess ? 0 : refusal_say("plan", result);
}

int command_plan(int argc, char **argv)
{
  struct asked asked = {.svg = NULL};
  char *data = NULL;
  size_t len = 0;
  int parsed = arguments_parse(&asked, argc, argv);
  if (parsed >= 0) return parsed;
  setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
  FILE *held = held_open(), *memory = asked.svg ? open_memstream(&data, &len) : NULL;
  if (!held || (asked.svg && !memory)) return 1;
  int refused = plan_make(&asked, held, memory), is_fine = !refused;
  if (memory) is_fine &= fclose(memory) == 0;
  if (is_fine && asked.svg) is_fine = svg_draw("plan", asked.svg, data, len);
  free(data);
  if (is_fine) return held_print(held);
  fclose(held);
  return refused ? refused : 1;
}
