/* SPDX-License-Identifier: BSD-3-Clause */
#include "campaign.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "meeting.h"
#include "ranks.h"

static uint64_t number_of(const char *option, const char *text)
{
  char *end = NULL;
  uint64_t number = text ? strtoull(text, &end, 10) : 0;
  if (text && *text && !*end) return number;
  fprintf(stderr, "%s is \"%s\": give a whole number\n", option, text ? text : "");
  exit(2);
}

int campaign_read(struct campaign *campaign, const char *name, long rounds, int argc, char **argv)
{
  int kept = 1;
  long asked = 0;
  *campaign = (struct campaign){.name = name, .first = 1, .jobs = 1};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seed") == 0) campaign->first = number_of("--seed", argv[++i]);
    else if (strcmp(argv[i], "--rounds") == 0) asked = (long)number_of("--rounds", argv[++i]);
    else if (strcmp(argv[i], "--seconds") == 0) campaign->seconds = (long)number_of("--seconds", argv[++i]);
    else if (strcmp(argv[i], "--jobs") == 0) campaign->jobs = (int)number_of("--jobs", argv[++i]);
    else if (strcmp(argv[i], "--totals") == 0 && i + 1 < argc) campaign->totals = argv[++i];
    else argv[kept++] = argv[i];
  }
  argv[kept] = NULL;
  campaign->rounds = asked ? asked : campaign->seconds ? INT32_MAX : rounds;
  campaign->began_ms = meeting_now_ms();
  return kept;
}

int campaign_next(struct campaign *campaign)
{
  long passed_ms = meeting_now_ms() - campaign->began_ms;
  if (campaign->seconds && passed_ms >= campaign->seconds * 1000) return 0;
  long number = campaign->claimed ? atomic_fetch_add(campaign->claimed, 1) : campaign->done;
  if (number >= campaign->rounds) return 0;
  campaign->seed = campaign->first + (uint64_t)number;
  campaign->done++;
  campaign->is_failed = 0;
  return 1;
}

static void add(struct campaign *campaign, const struct campaign *job)
{
  campaign->done += job->done;
  for (long i = 0; i < job->failed; i++, campaign->failed++)
    if (i < CAMPAIGN_SEEDS && campaign->failed < CAMPAIGN_SEEDS) campaign->seeds[campaign->failed] = job->seeds[i];
}

void *campaign_spread(struct campaign *campaign, size_t bytes, void (*work)(struct campaign *campaign, void *counts))
{
  int n = campaign->jobs > 0 ? campaign->jobs : 1;
  char *counts = ranks_shared((size_t)n * bytes);
  struct campaign *jobs = ranks_shared((size_t)n * sizeof *jobs);
  pid_t *pids = calloc((size_t)n, sizeof *pids);
  if (n > 1) campaign->claimed = ranks_shared(sizeof *campaign->claimed);
  if (!counts || !jobs || !pids || (n > 1 && !campaign->claimed)) exit(2);
  fflush(NULL);
  for (int j = 0; j < n; j++) {
    jobs[j] = *campaign;
    pids[j] = n > 1 ? fork() : -1;
    if (pids[j] > 0) continue;
    if (pids[j] == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
    setvbuf(stdout, NULL, _IOLBF, 0);
    work(&jobs[j], counts + (size_t)j * bytes);
    if (pids[j] == 0) exit(0);
  }
  for (int j = 0; j < n; j++) {
    int status = 0;
    while (pids[j] > 0 && waitpid(pids[j], &status, 0) < 0) {}
    campaign->seed = jobs[j].seed;
    campaign->is_failed = 0;
    add(campaign, &jobs[j]);
    if (status) campaign_fail(campaign, "a process that ran rounds, at last that of this seed, ended with %d", status);
  }
  free(pids);
  return counts;
}

void campaign_fail(struct campaign *campaign, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  printf("%s, seed %llu: ", campaign->name, (unsigned long long)campaign->seed);
  vprintf(format, arguments);
  printf("\n");
  fflush(stdout);
  va_end(arguments);
  if (campaign->is_failed) return;
  campaign->is_failed = 1;
  if (campaign->failed < CAMPAIGN_SEEDS) campaign->seeds[campaign->failed] = campaign->seed;
  campaign->failed++;
}

int campaign_end(const struct campaign *campaign, const char *counts, ...)
{
  va_list arguments;
  va_start(arguments, counts);
  printf("%s: %ld rounds from seed %llu in %.1f s, %ld failed", campaign->name, campaign->done,
         (unsigned long long)campaign->first, (double)(meeting_now_ms() - campaign->began_ms) / 1000, campaign->failed);
  for (long i = 0; i < campaign->failed && i < CAMPAIGN_SEEDS; i++)
    printf("%s%llu", i ? ", " : " (seeds ", (unsigned long long)campaign->seeds[i]);
  printf("%s", campaign->failed > CAMPAIGN_SEEDS ? ", ...)" : campaign->failed ? ")" : "");
  printf("%s", *counts ? "; " : "");
  vprintf(counts, arguments);
  printf("\n");
  fflush(stdout);
  va_end(arguments);
  return campaign->failed > 0;
}

void campaign_total(const struct campaign *campaign, const char *counts, ...)
{
  char line[1024], date[32] = "";
  const char *commit = getenv("CAMPAIGN_COMMIT");
  time_t now = time(NULL);
  struct tm parts;
  va_list arguments;
  if (!campaign->totals) return;
  if (gmtime_r(&now, &parts)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &parts);
  int n = snprintf(line, sizeof line, "date=%s commit=%s kind=%s seed=%llu rounds=%ld failed=%ld seconds=%.1f ", date,
                   commit ? commit : "unknown", campaign->name, (unsigned long long)campaign->first, campaign->done,
                   campaign->failed, (double)(meeting_now_ms() - campaign->began_ms) / 1000);
  va_start(arguments, counts);
  vsnprintf(line + n, sizeof line - (size_t)n, counts, arguments);
  va_end(arguments);
  FILE *file = fopen(campaign->totals, "a");
  if (!file || fprintf(file, "%s\n", line) < 0 || fclose(file) != 0) perror(campaign->totals);
}

static int by_size(const void *a, const void *b)
{
  long x = *(const long *)a, y = *(const long *)b;
  return (x > y) - (x < y);
}

long campaign_quantile(long *numbers, int n, int permille)
{
  qsort(numbers, (size_t)n, sizeof *numbers, by_size);
  return n ? numbers[(long)(n - 1) * permille / 1000] : 0;
}
