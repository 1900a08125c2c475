/* SPDX-License-Identifier: BSD-3-Clause */
/* The last calls of a communicator that has failed, in a file (TUTTI_DUMP): one object of JSON that is both a dump of
 * torch's flight recorder ("version", "pg_config", "pg_status", "entries") and a trace for Perfetto ("traceEvents");
 * each of them passes over the members of the other, Perfetto only behind its own ones, which so come first. Times of
 * entries are those of the wall clock, times of the trace those of CLOCK_MONOTONIC, as in a time line. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "comm/private.h"

/* The names of torch. */
static const char *type_of(int type)
{
  static const char *const names[tuttiNumTypes] = {
      [tuttiInt8] = "Char",           [tuttiUint8] = "Byte",           [tuttiInt32] = "Int",
      [tuttiUint32] = "UInt32",       [tuttiInt64] = "Long",           [tuttiUint64] = "UInt64",
      [tuttiFloat16] = "Half",        [tuttiFloat32] = "Float",        [tuttiFloat64] = "Double",
      [tuttiBfloat16] = "BFloat16",   [tuttiFloat8e4m3] = "Float8_e4m3fn", [tuttiFloat8e5m2] = "Float8_e5m2",
      [tuttiInt16] = "Short",         [tuttiUint16] = "UInt16",        [tuttiBool] = "Bool",
      [tuttiComplexFloat32] = "ComplexFloat", [tuttiComplexFloat64] = "ComplexDouble"};
  return type < tuttiNumTypes ? names[type] : "Undefined";
}

struct dump {
  FILE *out;
  const struct tuttiComm *comm;
  uint64_t first, entered, finished; /* numbers of calls */
  uint64_t now_ns;
  int64_t wall_ns; /* CLOCK_REALTIME less CLOCK_MONOTONIC */
};

static void string_write(FILE *out, const char *text)
{
  putc('"', out);
  for (; *text; text++) {
    unsigned char c = (unsigned char)*text;
    if (c < 0x20 || c >= 0x7f) fprintf(out, "\\u%04x", c < 0x7f ? c : '?');
    else fprintf(out, c == '"' || c == '\\' ? "\\%c" : "%c", c);
  }
  putc('"', out);
}

/* A time in thousands, with three decimals whatever the locale. */
static void thousands_write(FILE *out, uint64_t ns)
{
  fprintf(out, "%llu.%03llu", (unsigned long long)ns / 1000, (unsigned long long)ns % 1000);
}

/* A member with a time of the wall clock. */
static void time_write(const struct dump *dump, const char *name, uint64_t ns)
{
  if (ns) fprintf(dump->out, ",\"%s\":%lld", name, (long long)ns + (long long)dump->wall_ns);
  else fprintf(dump->out, ",\"%s\":null", name);
}

static uint64_t elements_of(const struct dump *dump, const struct tt_call *call, int cover)
{
  int is_whole = cover != TT_COVER_OWN && tt_kinds[call->collective].is_shared;
  return call->count * (is_whole ? (uint64_t)dump->comm->facts.first_nranks : 1);
}

/* The name by which torch's analyzer takes a call for the same on all ranks. It refuses a dump with a name that it does
 * not know, so a split or grow has that of its all-gather, and a barrier the one that all its versions know. */
static const char *name_of(const struct tt_call *call)
{
  return call->form == TT_FORM_BARRIER ? "all_reduce_barrier" : tt_kinds[call->collective].name;
}

static void entry_write(const struct dump *dump, const struct tt_recorded *at)
{
  const struct tt_call *call = &at->call;
  const struct tt_kind *kind = &tt_kinds[call->collective];
  int is_over = call->op <= dump->finished;
  uint64_t ended_ns = is_over ? at->ended_ns : 0;
  if (is_over && ended_ns < at->began_ns) ended_ns = at->began_ns; /* the end is not exact */
  if (is_over && !ended_ns) ended_ns = dump->now_ns;               /* the quickest calls have no times */
  fprintf(dump->out, "{\"record_id\":%llu,\"pg_id\":0,\"process_group\":[\"0\",", (unsigned long long)call->op - 1);
  string_write(dump->out, dump->comm->facts.label);
  fprintf(dump->out, "],\"collective_seq_id\":%llu,\"p2p_seq_id\":0,\"op_id\":%llu,\"profiling_name\":\"nccl:%s\"",
          (unsigned long long)call->op, (unsigned long long)call->op, name_of(call));
  fprintf(dump->out, ",\"input_sizes\":[[%llu]],\"input_dtypes\":[\"%s\"],\"output_sizes\":[[%llu]]",
          (unsigned long long)elements_of(dump, call, kind->in), type_of(call->type),
          (unsigned long long)elements_of(dump, call, kind->out));
  fprintf(dump->out, ",\"output_dtypes\":[\"%s\"],\"state\":\"%s\"", type_of(call->type),
          is_over ? "completed" : "started");
  time_write(dump, "time_created_ns", at->began_ns ? at->began_ns : dump->now_ns);
  time_write(dump, "time_discovered_started_ns", at->began_ns);
  time_write(dump, "time_discovered_completed_ns", ended_ns);
  if (at->is_exact && at->began_ns && ended_ns > at->began_ns) {
    fprintf(dump->out, ",\"duration_ms\":");
    thousands_write(dump->out, (ended_ns - at->began_ns) / 1000);
  }
  fprintf(dump->out, ",\"retired\":%s,\"timeout_ms\":%lld,\"is_p2p\":false,\"frames\":[],\"algorithm\":\"%s\"}",
          is_over ? "true" : "false", (long long)dump->comm->facts.settings.timeout_ms, tt_algos[call->algo].name);
}

/* A span of the trace, if it is known when the call began. The quickest calls have no end: they ended before the next
 * one. */
static void span_write(const struct dump *dump, const struct tt_recorded *at, const struct tt_recorded *next)
{
  char text[TT_CALL_TEXT_BYTES];
  uint64_t end_ns = at->call.op > dump->finished ? dump->now_ns : at->is_exact ? at->ended_ns : next->began_ns;
  if (!at->began_is_exact || end_ns <= at->began_ns) return;
  fprintf(dump->out, ",\n{\"name\":\"%s\",\"ph\":\"X\",\"ts\":", tt_call_name(&at->call));
  thousands_write(dump->out, at->began_ns);
  fprintf(dump->out, ",\"dur\":");
  thousands_write(dump->out, end_ns - at->began_ns);
  fprintf(dump->out, ",\"pid\":%d,\"tid\":1,\"args\":{\"call\":", dump->comm->facts.first_rank);
  string_write(dump->out, tt_call_text(&at->call, text, sizeof text));
  fprintf(dump->out, ",\"algorithm\":\"%s\"}}", tt_algos[at->call.algo].name);
}

/* Finds the next call, from *op on, that is still there. */
static int next_of(const struct dump *dump, uint64_t *op, struct tt_recorded *at)
{
  for (; *op <= dump->entered; ++*op)
    if (tt_watch_recorded(dump->comm->parts.watch, *op, at) && at->call.collective < TT_PAIRS && at->call.collective &&
        at->call.algo < tt_algo_count)
      return 1;
  return 0;
}

static void entries_write(const struct dump *dump)
{
  struct tt_recorded at;
  int n = 0;
  fprintf(dump->out, "\"entries\":[");
  for (uint64_t op = dump->first; next_of(dump, &op, &at); op++) {
    fprintf(dump->out, n++ ? ",\n" : "\n");
    entry_write(dump, &at);
  }
  fprintf(dump->out, "]");
}

static void spans_write(const struct dump *dump)
{
  struct tt_recorded at;
  fprintf(dump->out, "\"traceEvents\":[\n{\"name\":\"process_name\",\"ph\":\"M\",\"pid\":%d,\"args\":{\"name\":"
                     "\"rank %d\"}}", dump->comm->facts.first_rank, dump->comm->facts.first_rank);
  for (uint64_t op = dump->first; next_of(dump, &op, &at); op++) {
    struct tt_recorded next = {0};
    tt_watch_recorded(dump->comm->parts.watch, op + 1, &next);
    if (!next.began_is_exact) next.began_ns = 0;
    span_write(dump, &at, &next);
  }
  fprintf(dump->out, "]");
}

static void dump_write(const struct dump *dump)
{
  const struct tuttiComm *comm = dump->comm;
  fprintf(dump->out, "{");
  spans_write(dump);
  fprintf(dump->out, ",\n\"version\":\"2.10\",\"comm_lib_version\":\"tutti %d.%d.%d\",\"rank\":%d,\"failure\":",
          TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH, comm->facts.first_rank);
  string_write(dump->out, tt_watch_failure(comm->parts.watch)->sentence);
  fprintf(dump->out, ",\n\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":");
  string_write(dump->out, comm->facts.label);
  fprintf(dump->out, ",\"ranks\":\"[");
  for (int rank = 0; rank < comm->facts.first_nranks; rank++) fprintf(dump->out, rank ? ", %d" : "%d", rank);
  fprintf(dump->out, "]\"}},\n\"pg_status\":{\"0\":{\"last_enqueued_collective\":%llu,\"last_started_collective\":%llu,"
                     "\"last_completed_collective\":%llu}},\n",
          (unsigned long long)dump->entered, (unsigned long long)dump->entered, (unsigned long long)dump->finished);
  entries_write(dump);
  fprintf(dump->out, "}\n");
}

/* The first communicator of a process has the name itself, others ".NUMBER" behind it. The rank in it is that of the
 * communicator from which all come by splits: groups number their ranks alike. A pipe that nobody reads is an error. */
static FILE *file_open(const struct tuttiComm *comm, char name[TT_FILE_NAME_BYTES])
{
  const struct tt_comm_facts *facts = &comm->facts;
  if (tt_file_name(name, "TUTTI_DUMP", facts->settings.dump, facts->root_rank, facts->root_nranks) != tuttiSuccess)
    return NULL;
  size_t used = strlen(name);
  int more = facts->serial ? snprintf(name + used, TT_FILE_NAME_BYTES - used, ".%u", (unsigned)facts->serial) : 0;
  int is_whole = used + (size_t)more < TT_FILE_NAME_BYTES;
  if (!is_whole) errno = ENAMETOOLONG;
  int fd = is_whole ? tt_file_open(name, O_TRUNC | O_NONBLOCK) : -1;
  FILE *out = fd >= 0 ? fdopen(fd, "w") : NULL;
  if (!out) tt_log(TT_LOG_WARN, "%s (TUTTI_DUMP) cannot be opened: %s", name, tt_file_why(errno));
  if (!out && fd >= 0) close(fd);
  return out;
}

void tt_comm_dump(struct tuttiComm *comm)
{
  char name[TT_FILE_NAME_BYTES];
  struct timespec wall;
  sigset_t before;
  if (!comm->facts.settings.dump[0] || comm->life.is_dumped || !tt_comm_has_failed(comm)) return;
  comm->life.is_dumped = 1;
  FILE *out = file_open(comm, name);
  if (!out) return;
  clock_gettime(CLOCK_REALTIME, &wall);
  struct dump dump = {.out = out, .comm = comm, .now_ns = tt_now_ns()};
  dump.wall_ns = (int64_t)wall.tv_sec * 1000000000 + wall.tv_nsec - (int64_t)dump.now_ns;
  tt_watch_progress(comm->parts.watch, &dump.entered, &dump.finished);
  dump.first = dump.entered >= TT_CALLS ? dump.entered - TT_CALLS + 1 : 1;
  tt_file_limit_begin(&before);
  dump_write(&dump);
  int failed = ferror(out);
  failed |= fclose(out) != 0;
  tt_file_limit_end(&before);
  if (failed) tt_log(TT_LOG_WARN, "%s (TUTTI_DUMP) cannot be written: %s", name, strerror(errno));
  else tt_log(TT_LOG_INFO, "the last calls are in %s (TUTTI_DUMP)", name);
}
