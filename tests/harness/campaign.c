/* SPDX-License-Identifier: BSD-3-Clause */
#include "campaign.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "meeting.h"

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
  *campaign = (struct campaign){.name = name, .first = 1};
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--seed") == 0) campaign->first = number_of("--seed", argv[++i]);
    else if (strcmp(argv[i], "--rounds") == 0) asked = (long)number_of("--rounds", argv[++i]);
    else if (strcmp(argv[i], "--seconds") == 0) campaign->seconds = (long)number_of("--seconds", argv[++i]);
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
  if (campaign->done >= campaign->rounds) return 0;
  if (campaign->seconds && passed_ms >= campaign->seconds * 1000) return 0;
  campaign->seed = campaign->first + (uint64_t)campaign->done++;
  campaign->is_failed = 0;
  return 1;
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
