/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti profile`: what was measured on a machine, for a person. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"
#include "profiles/profiles.h"

static const char *const help =
    "usage: tutti profile show FILE [--allreduce] [--plot SVG]\n"
    "       tutti profile show\n"
    "       tutti profile check FILE [--verbose]\n"
    "       tutti profile print FILE\n\n"
    "`show` prints the profile as tables: latency, GB/s and error of messages, GB/s of\n"
    "reductions, and how many whole operations of each algorithm were measured. Without FILE it prints what\n"
    "jobs on this host have measured and learnt, and when (TUTTI_CACHE). `check` tests that every\n"
    "line can be read (it names the first that cannot), that no line is missing at the end, and that all\n"
    "algorithms and transports exist; lines about unknown ones have no effect, and are reported, too. Its\n"
    "exit status is 0 only if nothing is reported. It also says, which does not count for the status, if\n"
    "the machine was busy, or if not all was measured. `print` prints the profile in the form in which\n"
    "`tutti tune` writes profiles: sorted, with comments.\n"
    "      --allreduce       only the time of an all-reduce of m bytes, a + b m, for each algorithm: the\n"
    "                        line nearest to the measured times, its mean error and its worst error\n"
    "      --plot SVG        also draw the measured points and the fitted lines (needs python3)\n"
    "      --verbose         report each line that has no effect, not only each unknown algorithm\n"
    "  -h, --help            this text\n";

static tuttiResult_t refuse(const char *what, const char *path, const char *why)
{
  char sentence[512];
  snprintf(sentence, sizeof sentence, "%s%.300s%s%s", what, path, why ? ": " : "", why ? why : "");
  return tuttiRefuse(tuttiSystemError, sentence);
}

/* The exit status. */
static int complain(const char *action, const char *sentence)
{
  fflush(stdout);
  fprintf(stderr, "tutti profile %s: %s\n", action, sentence);
  return 1;
}

/* 0: it is not drawn, as was said. */
static int plot(const struct tt_profile *profile, const char *svg)
{
  char *data = NULL;
  size_t len = 0;
  FILE *memory = open_memstream(&data, &len);
  if (!memory) return !complain("show", "no memory for a plot");
  tuttiResult_t result = tt_profile_print(profile, memory);
  int broken = fclose(memory), drawn = 0;
  if (result != tuttiSuccess) complain("show", tuttiGetLastError(NULL));
  else if (broken) complain("show", "no memory for a plot");
  else drawn = svg_draw("profile show", svg, data, len);
  free(data);
  return drawn;
}

/* The exit status. */
static int show(const char *path, int is_allreduce, const char *svg)
{
  struct tt_profile profile = {.nlinks = 0};
  tuttiResult_t result = tt_profile_load(&profile, path);
  if (!result) result = (is_allreduce ? tt_profile_allreduce_show : tt_profile_show)(&profile, stdout);
  int is_fine = result ? !complain("show", tuttiGetLastError(NULL)) : !svg || plot(&profile, svg);
  tt_profile_destroy(&profile);
  return !is_fine;
}

/* The exit status. */
static int show_cache(void)
{
  struct tt_settings settings;
  tuttiResult_t result = tt_settings_load(&settings);
  if (!result) result = tt_profile_cache_show(&settings, stdout);
  return result ? complain("show", tuttiGetLastError(NULL)) : 0;
}

/* A busy machine, or an early end, makes a profile worse, but it is one. */
static void doubts_say(const struct tt_profile *profile)
{
  char text[TT_SENTENCE_BYTES];
  const struct tt_profile_missing *first = profile->missing;
  if (tt_profile_busy_text(profile, text)[0]) fprintf(stderr, "tutti profile check: %s\n", text);
  if (profile->nmissing)
    fprintf(stderr,
            "tutti profile check: the profile %s is partial: %d %s not measured to the end (%d ranks over %s: from %s "
            "on%s), and the built-in prices count there: measure again with more --seconds, or add with --append\n",
            profile->name, (int)profile->nmissing, profile->nmissing == 1 ? "job was" : "jobs were",
            (int)first->nranks, first->transport, first->from, profile->nmissing > 1 ? ", ..." : "");
}

/* The exit status. */
static int check(const char *path, int is_verbose)
{
  int unknown = 0;
  struct tt_profile profile = {.nlinks = 0};
  tuttiResult_t result = tt_profile_load(&profile, path);
  if (!result) result = tt_profile_check(&profile, is_verbose, stderr, &unknown);
  if (!result) doubts_say(&profile);
  if (!result && !unknown && !profile.nmeasured) printf("%s is a profile\n", path);
  else if (!result && !unknown)
    printf("%s is a profile, of `%s` at %s\n", path, profile.measured[profile.nmeasured - 1].command,
           profile.measured[profile.nmeasured - 1].date);
  tt_profile_destroy(&profile);
  return result ? complain("check", tuttiGetLastError(NULL)) : unknown != 0;
}

/* The exit status. */
static int print(const char *path)
{
  struct tt_profile profile = {.nlinks = 0};
  tuttiResult_t result = tt_profile_load(&profile, path);
  if (!result) result = tt_profile_print(&profile, stdout);
  if (!result && fflush(stdout)) result = refuse("cannot write the lines of ", path, strerror(errno));
  tt_profile_destroy(&profile);
  return result ? complain("print", tuttiGetLastError(NULL)) : 0;
}

int command_profile(int argc, char **argv)
{
  static const struct option options[] = {{"allreduce", no_argument, NULL, 'a'},
                                          {"plot", required_argument, NULL, 'p'},
                                          {"verbose", no_argument, NULL, 'v'},
                                          {"help", no_argument, NULL, 'h'},
                                          {0}};
  const char *svg = NULL;
  int option, is_verbose = 0, is_allreduce = 0;
  optind = 1;
  while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1)
    if (option == 'p') svg = optarg;
    else if (option == 'v') is_verbose = 1;
    else if (option == 'a') is_allreduce = 1;
    else if (option != 'h') return usage_point("profile");
    else return fputs(help, stdout) < 0;
  const char *action = optind < argc ? argv[optind] : "";
  int is_show = strcmp(action, "show") == 0, is_check = strcmp(action, "check") == 0;
  if (!*action) fprintf(stderr, "tutti profile: say show, check or print\n");
  else if (!is_show && !is_check && strcmp(action, "print") != 0)
    fprintf(stderr, "tutti profile: say show, check or print, not \"%s\"\n", action);
  else if (is_show && argc - optind == 1 && !is_allreduce && !svg && !is_verbose) {
    setenv("TUTTI_DEBUG", "NONE", 0);
    return show_cache();
  } else if (argc - optind != 2) fprintf(stderr, "tutti profile %s: takes one file\n", action);
  else if (!is_show && is_allreduce) fprintf(stderr, "tutti profile %s: has no --allreduce\n", action);
  else if (!is_show && svg) fprintf(stderr, "tutti profile %s: has no --plot\n", action);
  else if (!is_check && is_verbose) fprintf(stderr, "tutti profile %s: has no --verbose\n", action);
  else {
    setenv("TUTTI_DEBUG", "NONE", 0); /* what it logs is said below */
    if (is_show) return show(argv[optind + 1], is_allreduce, svg);
    return is_check ? check(argv[optind + 1], is_verbose) : print(argv[optind + 1]);
  }
  return usage_point("profile");
}
