/* SPDX-License-Identifier: BSD-3-Clause */
/* The means of communicators of this process, for `tutti info`. */
#include <stdio.h>
#include <string.h>

#include "comm/private.h"
#include "cuda/cuda.h"
#include "reduce/reduce.h"

#ifndef TT_BUILD_TEXT
#define TT_BUILD_TEXT "unknown"
#endif

static void cpu_name(char *name, size_t size)
{
  snprintf(name, size, "unknown");
  FILE *file = fopen("/proc/cpuinfo", "re");
  char line[256];
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) != 0 || !colon) continue;
    colon[strcspn(colon, "\n")] = 0;
    snprintf(name, size, "%s", colon + 2);
    break;
  }
  if (file) fclose(file);
}

static void hardware_list(struct tt_listing *listing, const struct tt_settings *settings)
{
  char cpu[128], host[TT_HOST_NAME_BYTES], text[TT_ADDRESS_TEXT_BYTES], name[16];
  struct tt_address address;
  cpu_name(cpu, sizeof cpu);
  tt_host_name(host);
  tt_listing_section(listing, "hardware", NULL);
  tt_listing_line(listing, "host", "%s (id %016llx)", host, (unsigned long long)tt_host_id(settings->host_id));
  tt_listing_line(listing, "processor", "%s", cpu);
  tt_listing_line(listing, "cores", "%d usable by this process", tt_host_cores());
  tt_topo_list_here(listing);
  tuttiResult_t result = tt_interface_choose(settings, &address, name);
  if (result == tuttiSuccess && address.len) {
    tt_address_text(&address, text, sizeof text);
    *strrchr(text, ':') = 0; /* it has no port yet */
    tt_listing_line(listing, "interface", "%s %s", name, text);
  } else {
    tt_listing_line(listing, "interface", "none: %s", result == tuttiSuccess ? TT_NO_NETWORK : tt_last_sentence());
  }
}

static void kernels_list(struct tt_listing *listing)
{
  char names[128];
  size_t used = 0;
  for (int t = 0; tt_reduce_tables[t]; t++)
    if (tt_reduce_tables[t]->usable())
      used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", tt_reduce_tables[t]->name);
  tt_listing_section(listing, "reduce kernels", "TUTTI_KERNELS");
  tt_listing_line(listing, "in use", "%s", tt_reduce_table()->name);
  tt_listing_line(listing, "usable", "%s", names);
}

static void transports_list(struct tt_listing *listing, const struct tt_settings *settings)
{
  tt_listing_section(listing, "transports", NULL);
  for (int t = 1; tt_transports[t]; t++) {
    char why[TT_SENTENCE_BYTES];
    const char *reason = tt_transports[t]->unusable(settings, why, sizeof why);
    tt_listing_line(listing, tt_transports[t]->name, "%s%s", reason ? "unusable: " : "usable", reason ? reason : "");
  }
}

static void memory_list(struct tt_listing *listing, const struct tt_settings *settings)
{
  char text[256];
  const char *reason = tt_cuda_unusable(settings, text, sizeof text);
  tt_listing_section(listing, "memory", NULL);
  tt_listing_line(listing, "host", "usable");
  tt_listing_line(listing, "CUDA", "%s%s", reason ? "unusable: " : "usable: ", reason ? reason : text);
}

static void algorithms_list(struct tt_listing *listing)
{
  char names[1024];
  tt_listing_section(listing, "algorithms", "TUTTI_ALGO");
  for (int kind = 0; kind < TT_COLLECTIVES; kind++) {
    size_t used = 0;
    for (int a = 0; a < tt_algo_count && tt_kinds[kind].name; a++)
      if (tt_algos[a].collective == kind && used < sizeof names)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", used ? " " : "", tt_algos[a].name);
    if (used) tt_listing_line(listing, tt_kinds[kind].name, "%s", names);
  }
}

tuttiResult_t tt_info_list(FILE *out, int json, const struct tt_settings *settings)
{
  struct tt_listing listing = {.out = out, .json = json};
  tuttiResult_t result = tt_reduce_choose(settings->kernels);
  if (result != tuttiSuccess) return result;
  tt_listing_section(&listing, "Tutti", NULL);
  tt_listing_line(&listing, "version", "%d.%d.%d", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
  tt_listing_line(&listing, "built with", "%s", TT_BUILD_TEXT);
  tt_settings_list(&listing, settings);
  hardware_list(&listing, settings);
  kernels_list(&listing);
  transports_list(&listing, settings);
  memory_list(&listing, settings);
  algorithms_list(&listing);
  tt_listing_end(&listing);
  return tuttiSuccess;
}
