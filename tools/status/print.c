/* SPDX-License-Identifier: BSD-3-Clause */
/* A status for a person, and as JSON. */
#include "status/status.h"

#include "base/text.h"

static const char *call_of(const struct tt_rank_status *rank, char *text, size_t size)
{
  char call[TT_CALL_TEXT_BYTES];
  if (rank->seen == TT_SEEN_NOT) snprintf(text, size, "not seen from here");
  else if (!rank->entered) snprintf(text, size, "before its first call");
  else if (!rank->call.collective)
    snprintf(text, size, "%s operation #%llu", rank->is_inside ? "in" : "after", (unsigned long long)rank->entered);
  else
    snprintf(text, size, "%s %s", rank->is_inside ? "in" : "after", tt_call_text(&rank->call, call, sizeof call));
  return text;
}

static const char *state_of(const struct tt_rank_status *rank)
{
  if (rank->gone) return tt_gone_aborted(rank->gone) ? "aborted" : "left";
  switch (rank->thread.state) {
  case 0: return "";
  case 'R': return "running";
  case 'S': return "sleeping";
  case 'D': return "in the kernel";
  case 'T': return "stopped";
  case 't': return "in a debugger";
  case 'X': return "ended";
  default: return "alive";
  }
}

void tt_status_print(FILE *out, const struct tt_comm_status *status, const char *verdict)
{
  char call[TT_CALL_TEXT_BYTES + 16], age[TT_AGE_BYTES], bytes[TT_BYTES_TEXT_BYTES];
  fprintf(out, "%s, %d rank%s on %d host%s\n", status->label, status->nranks, status->nranks == 1 ? "" : "s",
          status->nhosts, status->nhosts == 1 ? "" : "s");
  fprintf(out, "  %5s %8s  %-16s %8s  %-13s %s\n", "rank", "pid", "host", "since", "process", "call");
  for (int r = 0; r < status->nranks; r++) {
    const struct tt_rank_status *rank = &status->ranks[r];
    fprintf(out, "  %5d %8d  %-16s %8s  %-13s %s\n", (int)rank->rank, (int)rank->pid, rank->host,
            rank->age_ns ? tt_age_text(rank->age_ns, age) : "", state_of(rank), call_of(rank, call, sizeof call));
  }
  for (int c = 0; c < TT_COLLECTIVES; c++) {
    const struct tt_call_count *total = &status->totals[c];
    if (!total->calls) continue;
    fprintf(out, "  rank %d has ended %llu %s of %s: %s in all, in %s\n", (int)status->host,
            (unsigned long long)total->calls, total->calls == 1 ? "call" : "calls", tt_kinds[c].called,
            tt_bytes_text(total->bytes, bytes), tt_age_text(total->ns, age));
  }
  fprintf(out, "%s\n", verdict);
}

static void string_write(FILE *out, const char *text)
{
  putc('"', out);
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putc('\\', out);
    if ((unsigned char)*text < 0x20) fprintf(out, "\\u%04x", *text);
    else putc(*text, out);
  }
  putc('"', out);
}

/* A member whose value is a string, with the comma before it. */
static void member_write(FILE *out, const char *name, const char *text)
{
  fprintf(out, ",\"%s\":", name);
  string_write(out, text);
}

static void rank_write(FILE *out, const struct tt_rank_status *rank)
{
  char call[TT_CALL_TEXT_BYTES];
  static const char *const seen[] = {[TT_SEEN_NOT] = "no", [TT_SEEN_HERE] = "here", [TT_SEEN_AFAR] = "afar"};
  fprintf(out, "{\"rank\":%d,\"pid\":%d", (int)rank->rank, (int)rank->pid);
  member_write(out, "host", rank->host);
  member_write(out, "seen", seen[rank->seen]);
  member_write(out, "process", state_of(rank));
  if (rank->thread.where[0]) member_write(out, "sleeps_in", rank->thread.where);
  fprintf(out, ",\"entered\":%llu,\"finished\":%llu,\"inside\":%s", (unsigned long long)rank->entered,
          (unsigned long long)rank->finished, rank->is_inside ? "true" : "false");
  if (rank->call.collective) member_write(out, "call", tt_call_text(&rank->call, call, sizeof call));
  if (rank->age_ns) fprintf(out, ",\"since_seconds\":%.6f", (double)rank->age_ns / 1e9);
  if (rank->lacks.step) {
    fprintf(out, ",\"not_pushed\":{\"step\":%llu,\"tensor\":%u,\"tensors\":%u",
            (unsigned long long)rank->lacks.step, rank->lacks.tensor, rank->lacks.missing);
    member_write(out, "name", rank->lacks.name);
    putc('}', out);
  }
  if (rank->waits_for >= 0) fprintf(out, ",\"waits_for\":%d", (int)rank->waits_for);
  putc('}', out);
}

void tt_status_json(FILE *out, const struct tt_comm_status *status, const char *verdict)
{
  fprintf(out, "{\"ranks\":%d,\"hosts\":%d", status->nranks, status->nhosts);
  member_write(out, "communicator", status->label);
  fprintf(out, ",\"internal\":%s", status->is_second ? "true" : "false");
  member_write(out, "verdict", verdict);
  if (status->has_failed) member_write(out, "failure", status->failure.sentence);
  fprintf(out, ",\"each\":[");
  for (int r = 0; r < status->nranks; r++) {
    fprintf(out, r ? ",\n  " : "\n  ");
    rank_write(out, &status->ranks[r]);
  }
  fprintf(out, "],\"totals\":{");
  for (int c = 0, n = 0; c < TT_COLLECTIVES; c++) {
    const struct tt_call_count *total = &status->totals[c];
    if (!total->calls) continue;
    fprintf(out, "%s\"%s\":{\"calls\":%llu,\"bytes\":%llu,\"seconds\":%.9f}", n++ ? "," : "", tt_kinds[c].called,
            (unsigned long long)total->calls, (unsigned long long)total->bytes, (double)total->ns / 1e9);
  }
  fprintf(out, "}}");
}
