/* SPDX-License-Identifier: BSD-3-Clause */
#include "options.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

#include "images.h"

#ifndef DIGITS_CSV
#define DIGITS_CSV "digits.csv"
#endif

static const char help[] =
  "large_batch: the ways to train with many images a step, an example of Tutti\n"
  "\n"
  "usage: large_batch [OPTION...]   alone, or under tutti run, mpirun or torchrun\n"
  "  --batch B      images of a step, of all ranks (default 64)\n"
  "  --rate R       learning rate (default 0.05)\n"
  "  --linear       multiply the rate by B / 64\n"
  "  --warmup E     with --linear: begin with R, and reach the rate step by step in E epochs\n"
  "  --momentum M   (default 0.9)\n"
  "  --half         weights and gradients are FP16, with FP32 masters and a dynamic loss scale\n"
  "  --no-master    with --half: without masters, to see what they are for\n"
  "  --lars ETA     a rate for each layer, by the norms of weights and gradients; without: the same for all\n"
  "  --decay D      of weights, not of biases (default 0)\n"
  "  --update       owners of weights take the steps, and all ranks get weights in place of sums\n"
  "  --elastic TAU  ranks train on their own; every TAU steps they and a centre are drawn together (EASGD)\n"
  "  --gossip       ranks train on their own; after each step pairs of them average their weights\n"
  "  --epochs N     times that all images are seen (default 25)\n"
  "  --seed N       of weights, orders and pairs (default 1)\n"
  "  --threads N    ranks of each process, as threads (default 1)\n"
  "  --data FILE    the images (default " DIGITS_CSV ")\n"
  "  --help         this text\n"
  "\n"
  "With --elastic or --gossip a rank steps by its own part of the B images; the accuracy is then that of the\n"
  "centre, or the average over the ranks' own networks. Otherwise all ranks hold the same bits. The exit status\n"
  "is 1 if these (with --elastic, the copies of the centre) differ after any step.\n";

static _Noreturn void wrong(const char *option, const char *text, const char *wanted)
{
  fprintf(stderr, "large_batch: %s: '%s' is not %s; try large_batch --help\n", option, text, wanted);
  exit(2);
}

static int number(const char *option, const char *text, int lowest, int highest)
{
  char *end, wanted[64];
  long value = strtol(text, &end, 10);
  snprintf(wanted, sizeof wanted, "a number from %d to %d", lowest, highest);
  if (!*text || *end || value < lowest || value > highest) wrong(option, text, wanted);
  return (int)value;
}

static double real(const char *option, const char *text, double below)
{
  char *end, wanted[64];
  double value = strtod(text, &end);
  snprintf(wanted, sizeof wanted, "at least 0 and below %g", below);
  if (!*text || *end || !(value >= 0) || value >= below) wrong(option, text, wanted);
  return value;
}

static _Noreturn void refuse(const char *why)
{
  fprintf(stderr, "large_batch: %s; try large_batch --help\n", why);
  exit(2);
}

/* Refuses options that do not go together. */
static void check(const struct options *o)
{
  int alone = o->elastic || o->gossip;
  if (o->elastic && o->gossip) refuse("--elastic and --gossip are two ways: give one of them");
  if (alone && (o->half || o->lars > 0 || o->update))
    refuse("--half, --lars and --update work on sums of gradients, which --elastic and --gossip do not make");
  if (o->no_master && !o->half) refuse("--no-master needs --half");
  if (o->no_master && o->update) refuse("--no-master: owners have masters, leave out --update");
  if (o->warmup && !o->linear) refuse("--warmup needs --linear");
}

static void set(struct options *o, int letter, const char *text)
{
  switch (letter) {
  case 't': o->threads = number("--threads", text, 1, 1024); break;
  case 'e': o->epochs = number("--epochs", text, 1, 100000); break;
  case 'b': o->batch = number("--batch", text, 1, IMAGES_MAX); break;
  case 'w': o->warmup = number("--warmup", text, 0, 100000); break;
  case 'E': o->elastic = number("--elastic", text, 1, 100000); break;
  case 's': o->seed = number("--seed", text, 0, 1000000); break;
  case 'r': o->rate = real("--rate", text, 1000); break;
  case 'm': o->momentum = real("--momentum", text, 1); break;
  case 'L': o->lars = real("--lars", text, 1000); break;
  case 'D': o->decay = real("--decay", text, 1); break;
  case 'd': o->data = text; break;
  case 'l': o->linear = 1; break;
  case 'H': o->half = 1; break;
  case 'n': o->no_master = 1; break;
  case 'u': o->update = 1; break;
  case 'g': o->gossip = 1; break;
  case 'h': fputs(help, stdout); exit(0);
  default: fputs("try large_batch --help\n", stderr); exit(2);
  }
}

void options_read(struct options *o, int argc, char **argv)
{
  static const struct option names[] = {
    {"threads", 1, NULL, 't'}, {"epochs", 1, NULL, 'e'}, {"batch", 1, NULL, 'b'},  {"warmup", 1, NULL, 'w'},
    {"elastic", 1, NULL, 'E'}, {"seed", 1, NULL, 's'},   {"rate", 1, NULL, 'r'},   {"momentum", 1, NULL, 'm'},
    {"lars", 1, NULL, 'L'},    {"decay", 1, NULL, 'D'},  {"data", 1, NULL, 'd'},   {"linear", 0, NULL, 'l'},
    {"half", 0, NULL, 'H'},    {"no-master", 0, NULL, 'n'}, {"gossip", 0, NULL, 'g'}, {"help", 0, NULL, 'h'},
    {"update", 0, NULL, 'u'}, {NULL, 0, NULL, 0}};
  *o = (struct options){.threads = 1, .epochs = 25, .batch = 64, .seed = 1, .rate = 0.05, .momentum = 0.9,
                        .data = DIGITS_CSV};
  for (int c; (c = getopt_long(argc, argv, "", names, NULL)) != -1;) set(o, c, optarg);
  if (optind < argc) wrong("argument", argv[optind], "an option");
  check(o);
}
