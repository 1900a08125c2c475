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

static void print_hardware(FILE *out, const struct tt_settings *settings)
{
  char cpu[128], host[TT_HOST_NAME_BYTES], text[TT_ADDRESS_TEXT_BYTES], name[16];
  struct tt_address address;
  cpu_name(cpu, sizeof cpu);
  tt_host_name(host);
  fprintf(out, "\nhardware\n  host       %s (id %016llx)\n  processor  %s\n  cores      %d usable by this process\n",
          host, (unsigned long long)tt_host_id(settings->host_id), cpu, tt_host_cores());
  tt_topo_print_here(out);
  tuttiResult_t result = tt_interface_choose(settings, &address, name);
  if (result == tuttiSuccess && address.len) {
    tt_address_text(&address, text, sizeof text);
    *strrchr(text, ':') = 0; /* it has no port yet */
    fprintf(out, "  interface  %s %s\n", name, text);
  } else fprintf(out, "  interface  none: %s\n", result == tuttiSuccess ? TT_NO_NETWORK : tt_last_sentence());
}

static void print_transports(FILE *out, const struct tt_settings *settings)
{
  fprintf(out, "\ntransports\n");
  for (int t = 1; tt_transports[t]; t++) {
    char why[TT_SENTENCE_BYTES];
    const char *reason = tt_transports[t]->unusable(settings, why, sizeof why);
    fprintf(out, "  %-10s %s%s\n", tt_transports[t]->name, reason ? "unusable: " : "usable", reason ? reason : "");
  }
}

static void print_memory(FILE *out, const struct tt_settings *settings)
{
  char text[256];
  const char *reason = tt_cuda_unusable(settings, text, sizeof text);
  fprintf(out, "\nmemory\n  %-10s usable\n  %-10s %s%s\n", "host", "CUDA", reason ? "unusable: " : "usable: ",
          reason ? reason : text);
}

static void print_kernels(FILE *out)
{
  fprintf(out, "\nreduce kernels (TUTTI_KERNELS)\n  in use     %s\n  usable    ", tt_reduce_table()->name);
  for (int t = 0; tt_reduce_tables[t]; t++)
    if (tt_reduce_tables[t]->usable()) fprintf(out, " %s", tt_reduce_tables[t]->name);
  fprintf(out, "\n");
}

static void print_algorithms(FILE *out)
{
  fprintf(out, "\nalgorithms (TUTTI_ALGO)\n");
  for (int kind = 0; kind < TT_COLLECTIVES; kind++) {
    if (!tt_kinds[kind].name) continue;
    fprintf(out, "  %-14s", tt_kinds[kind].name);
    for (int a = 0; a < tt_algo_count; a++)
      if (tt_algos[a].collective == kind) fprintf(out, " %s", tt_algos[a].name);
    fprintf(out, "\n");
  }
}

tuttiResult_t tt_info_print(FILE *out, const struct tt_settings *settings)
{
  tuttiResult_t result = tt_reduce_choose(settings->kernels);
  if (result != tuttiSuccess) return result;
  fprintf(out, "Tutti %d.%d.%d\nbuilt with %s\n\nsettings\n", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH, TT_BUILD_TEXT);
  tt_settings_print(out, settings);
  print_hardware(out, settings);
  print_kernels(out);
  print_transports(out, settings);
  print_memory(out, settings);
  print_algorithms(out);
  return tuttiSuccess;
}
