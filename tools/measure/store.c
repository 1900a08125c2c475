/* SPDX-License-Identifier: BSD-3-Clause */
/* Results into rank 0's profile, in place of what it says of the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "measure/fit_private.h"
#include "measure/private.h"

/* ---- machine and measured ---- */

/* In a profile texts stand between double quotes in one line. */
static void text_set(char text[TT_PROFILE_TEXT], const char *value)
{
  snprintf(text, TT_PROFILE_TEXT, "%s", value);
  for (char *at = text; *at; at++)
    if (*at == '"' || *at == '#' || (unsigned char)*at < ' ') *at = ' ';
}

/* Four digits: people read and compare them, and more is noise. */
static double rounded(double value)
{
  char text[32];
  snprintf(text, sizeof text, "%.4g", value);
  return strtod(text, NULL);
}

void tt_measure_machine(struct tt_profile *profile)
{
  char host[TT_HOST_NAME_BYTES], text[TT_PROFILE_TEXT];
  struct utsname names;
  tt_host_name(host);
  text_set(profile->host, host);
  tt_host_cpu(profile->cpu, sizeof profile->cpu);
  long cores = sysconf(_SC_NPROCESSORS_ONLN), pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
  profile->cores = cores > 0 ? (int32_t)cores : 1;
  snprintf(text, sizeof text, "%.1f GiB", (double)pages * (double)page / (1 << 30));
  text_set(profile->memory, text);
  int is_known = uname(&names) == 0;
  snprintf(text, sizeof text, "%.40s %.50s", is_known ? names.sysname : "unknown", is_known ? names.release : "");
  text_set(profile->kernel, text);
}

/* Refuses a profile of another machine: its lines could not be told from those of this one. */
static tuttiResult_t machine_set(struct tt_profile *profile)
{
  struct tt_profile here = {.cores = 0};
  int is_empty = !profile->nmeasured && !profile->nlinks && !profile->nreduces && !profile->nanchors;
  tt_measure_machine(&here);
  if (!is_empty && (strcmp(here.host, profile->host) != 0 || strcmp(here.cpu, profile->cpu) != 0 ||
                    here.cores != profile->cores || strcmp(here.kernel, profile->kernel) != 0))
    return tt_fail(tuttiInvalidUsage,
                   "the profile is of host \"%.40s\" (%.60s, %d cores, %.40s), this is \"%.40s\" (%.60s, %d cores, "
                   "%.40s): measure into a profile of its own, without --append",
                   profile->host, profile->cpu, (int)profile->cores, profile->kernel, here.host, here.cpu,
                   (int)here.cores, here.kernel);
  memcpy(profile->host, here.host, sizeof here.host);
  memcpy(profile->cpu, here.cpu, sizeof here.cpu);
  memcpy(profile->memory, here.memory, sizeof here.memory);
  memcpy(profile->kernel, here.kernel, sizeof here.kernel);
  profile->cores = here.cores;
  return tuttiSuccess;
}

tuttiResult_t tt_measure_note(struct tt_profile *profile, const char *command, double load)
{
  struct tt_profile_measured now = {.load = rounded(load)};
  char text[TT_PROFILE_TEXT];
  struct tm date;
  time_t seconds = time(NULL);
  strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&seconds, &date));
  text_set(now.date, text);
  text_set(now.command, command ? command : "measured");
  snprintf(text, sizeof text, "%d.%d.%d", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
  text_set(now.version, text);
  for (int32_t i = 0; i < profile->nmeasured; i++)
    if (!strcmp(profile->measured[i].date, now.date) && !strcmp(profile->measured[i].command, now.command))
      return tuttiSuccess;
  return tt_profile_add_measured(profile, &now);
}

/* A line of this time, unless it continues the last one's. */
static void measured_note(struct measure *m, double load)
{
  if (m->options->continues && m->profile->nmeasured) return;
  if (load > TT_PROFILE_BUSY)
    tt_log(TT_LOG_WARN, "tune: the machine was busy (load %.1f before): measure on an idle one", load);
  give_up(m, tt_measure_note(m->profile, m->options->command, load));
}

void store_machine(struct measure *m)
{
  double load = 0;
  tuttiResult_t own = m->profile ? machine_set(m->profile) : tuttiSuccess;
  if (getloadavg(&load, 1) != 1 || load < 0) load = 0;
  double values[2] = {own != tuttiSuccess, load};
  agree_all(m, values, 2);
  if (m->result) return;
  if (own != tuttiSuccess) m->result = own;
  else if (values[0] > 0) m->result = tt_fail(tuttiInvalidUsage, "tune: rank 0's profile is of another machine");
  else if (m->profile) measured_note(m, values[1]);
}

/* ---- what is missing ---- */

void store_missing(struct measure *m, const char *from)
{
  struct tt_profile_missing missing = {.nranks = m->facts->nranks, .nnodes = m->topology->nnodes};
  if (!m->profile || m->result) return;
  tt_profile_remove_missing(m->profile, missing.nranks, missing.nnodes, m->transport);
  if (!from) return;
  snprintf(missing.transport, sizeof missing.transport, "%s", m->transport);
  text_set(missing.from, from);
  give_up(m, tt_profile_add_missing(m->profile, &missing));
}

void store_keep(struct measure *m)
{
  if (m->profile && !m->result && m->options->keep) m->options->keep(m->options->context, m->profile);
}

/* ---- links ---- */

static void flow_forget(struct tt_profile *profile, const struct tt_flow *flow)
{
  int32_t links = 0, points = 0;
  for (int32_t i = 0; i < profile->nlinks; i++)
    if (!tt_flow_same(&profile->links[i].flow, flow)) profile->links[links++] = profile->links[i];
  for (int32_t i = 0; i < profile->npoints; i++)
    if (!tt_flow_same(&profile->points[i].flow, flow)) profile->points[points++] = profile->points[i];
  profile->nlinks = links;
  profile->npoints = points;
}

void store_flow(struct measure *m, const struct tt_profile_point *points, int n, double overhead_us)
{
  struct tt_profile_link links[TT_CURVE_PARTS];
  int32_t nlinks = 0;
  if (!m->profile || m->result) return;
  flow_forget(m->profile, &points[0].flow);
  tt_fit(links, &nlinks, points, n);
  for (int32_t i = 0; i < nlinks; i++) {
    links[i].overhead_us = rounded(overhead_us);
    give_up(m, tt_profile_add_link(m->profile, &links[i]));
  }
  for (int i = 0; i < n; i++) {
    struct tt_profile_point point = points[i];
    point.us = rounded(point.us);
    point.low_us = rounded(point.low_us);
    point.high_us = rounded(point.high_us);
    give_up(m, tt_profile_add_point(m->profile, &point));
  }
}

/* ---- reduce and anchor ---- */

void store_reduce(struct measure *m, const struct tt_profile_reduce *reduce)
{
  struct tt_profile *profile = m->profile;
  struct tt_profile_reduce made = *reduce;
  if (!profile || m->result) return;
  made.gamma_us_per_mib = rounded(made.gamma_us_per_mib);
  made.error_percent = rounded(made.error_percent);
  for (int32_t i = 0; i < profile->nreduces; i++) {
    struct tt_profile_reduce *has = &profile->reduces[i];
    if (has->type != made.type || has->op != made.op || has->nsrc != made.nsrc || has->level != made.level) continue;
    *has = made;
    return;
  }
  give_up(m, tt_profile_add_reduce(profile, &made));
}

void store_anchors_forget(struct measure *m, int collective, enum tt_memory memory, uint64_t up_to_bytes)
{
  struct tt_profile *profile = m->profile;
  int32_t n = 0;
  if (!profile || m->result) return;
  for (int32_t i = 0; i < profile->nanchors; i++) {
    const struct tt_profile_anchor *a = &profile->anchors[i];
    if (a->collective != collective || a->bytes > up_to_bytes || a->nranks != m->facts->nranks ||
        a->memory != memory || a->nnodes != m->topology->nnodes || a->cores != m->cores ||
        strcmp(a->transport, m->transport) != 0)
      profile->anchors[n++] = *a;
  }
  profile->nanchors = n;
}

static int anchor_same(const struct tt_profile_anchor *a, const struct tt_profile_anchor *b)
{
  return a->collective == b->collective && !strcmp(a->algo, b->algo) && a->radix == b->radix &&
         a->block_bytes == b->block_bytes && a->nranks == b->nranks && a->nnodes == b->nnodes &&
         a->cores == b->cores && !strcmp(a->transport, b->transport) && a->memory == b->memory && a->bytes == b->bytes;
}

void store_anchor(struct measure *m, const struct tt_profile_anchor *anchor)
{
  struct tt_profile *profile = m->profile;
  struct tt_profile_anchor made = *anchor;
  if (!profile || m->result) return;
  made.us = rounded(made.us);
  for (int32_t i = 0; i < profile->nanchors; i++)
    if (anchor_same(&profile->anchors[i], &made)) {
      profile->anchors[i] = made;
      return;
    }
  give_up(m, tt_profile_add_anchor(profile, &made));
}
