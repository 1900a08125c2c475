/* SPDX-License-Identifier: BSD-3-Clause */
/* The observers of operations: the explainer, and the trace, where each operation is a span of its communicator's
 * track. */
#include <stdio.h>

#include "base/text.h"
#include "comm/private.h"
#include "tuner/explain.h"

tuttiResult_t tt_observe_start(struct tuttiComm *comm)
{
  if (!comm->facts.settings.timeline[0]) return tuttiSuccess;
  comm->calls.is_observed = 1;
  return tt_timeline_open(comm->facts.settings.timeline, comm->facts.rank, comm->facts.nranks);
}

void tt_observe_begin(struct tuttiComm *comm, const struct tt_call *call)
{
  if (comm->calls.explainer) tt_explain_begin(comm, call);
  if (tt_timeline_wanted()) comm->calls.span_ns = tt_now_ns();
}

/* The bytes that a collective call counts, or those of all messages. */
static uint64_t bytes_of(const struct tt_binding *binding)
{
  uint64_t bytes = 0;
  if (binding->call.collective != TT_PAIRS) return binding->call.count * tt_type_size(binding->call.type);
  for (int i = 0; i < binding->ntransfers; i++) bytes += binding->transfers[i].bytes;
  return bytes;
}

/* "sends":[[peer, number], ...],"recvs":[...]: the number is that of the message among all of the pair. They are left
 * out if they are too many. */
static void messages_write(char *text, size_t size, const struct tt_binding *binding)
{
  char list[2][TT_TIMELINE_ARGS_BYTES / 3] = {"", ""};
  size_t used[2] = {0, 0};
  for (int i = 0; i < binding->ntransfers; i++) {
    const struct tt_transfer *of = &binding->transfers[i];
    int k = !of->sends, n = snprintf(list[k] + used[k], sizeof list[k] - used[k], "%s[%d,%llu]", used[k] ? "," : "",
                                     (int)of->peer, (unsigned long long)of->number);
    used[k] += (size_t)n;
    if (used[k] >= sizeof list[k]) return;
  }
  snprintf(text, size, ",\"sends\":[%s],\"recvs\":[%s]", list[0], list[1]);
}

/* The public number of the communicator, the same on all its ranks. */
static const char *id_text(const struct tuttiComm *comm, char text[17])
{
  for (int i = 0; i < 8; i++) sprintf(text + 2 * i, "%02x", comm->parts.credentials.job[i]);
  return text;
}

static void args_write(char *text, size_t size, const struct tuttiComm *comm, const struct tt_binding *binding)
{
  const struct tt_call *call = &binding->call;
  char algorithm[TT_CHOICE_TEXT_BYTES], id[17];
  int n = snprintf(text, size, "\"bytes\":%llu,\"communicator\":%u,\"id\":\"%s\",\"rank\":%d,\"ranks\":%d",
                   (unsigned long long)bytes_of(binding), (unsigned)comm->facts.serial, id_text(comm, id),
                   comm->facts.rank, comm->facts.nranks);
  if (call->collective == TT_PAIRS) {
    n += snprintf(text + n, size - (size_t)n, ",\"messages\":%d", binding->ntransfers);
    messages_write(text + n, size - (size_t)n, binding);
    return;
  }
  size_t element = tt_type_size(tt_call_wire_type(call));
  const struct tt_choice *choice = call->form & (TT_FORM_CODED | TT_FORM_COUNTS)
                                       ? tt_table_choice(&comm->calls.table, call->collective, call->count * element)
                                       : tt_comm_choice(comm, call->collective, element, call->count * element);
  n += snprintf(text + n, size - (size_t)n, ",\"op\":%llu,\"type\":\"%s\",\"algorithm\":\"%s\"",
                (unsigned long long)call->op, tt_type_name(call->type), tt_choice_text(choice, algorithm));
  if (tt_call_wire_type(call) != call->type)
    n += snprintf(text + n, size - (size_t)n, ",\"wire\":\"%s\"", tt_type_name(tt_call_wire_type(call)));
  if (call->root < 0 || call->form & TT_FORM_CODED) return; /* of codes it has another meaning */
  snprintf(text + n, size - (size_t)n, ",\"root\":%d", (int)call->root);
}

static void span_add(struct tuttiComm *comm, const struct tt_binding *binding, tuttiResult_t result)
{
  char track[TT_TIMELINE_TEXT_BYTES], name[TT_TIMELINE_TEXT_BYTES], number[16] = "", size[TT_BYTES_TEXT_BYTES];
  char args[TT_TIMELINE_ARGS_BYTES];
  if (comm->facts.serial) snprintf(number, sizeof number, " %u", (unsigned)comm->facts.serial);
  snprintf(track, sizeof track, "operations%s%s%s", number, comm->facts.name[0] ? " of " : "", comm->facts.name);
  snprintf(name, sizeof name, "%s %s%s", tt_call_name(&binding->call), tt_bytes_text(bytes_of(binding), size),
           result == tuttiSuccess ? "" : ", failed");
  args_write(args, sizeof args, comm, binding);
  int is_own = comm->facts.is_fusions || tt_comm_is_inner(&comm->facts) ||
               binding->call.form == TT_FORM_SPLIT || binding->call.form & TT_FORM_LEARN;
  tt_timeline_add(&(struct tt_span){.track = track,
                                    .name = name,
                                    .begin_ns = comm->calls.span_ns,
                                    .end_ns = tt_now_ns(),
                                    .args = args,
                                    .cat = is_own ? "internal" : "call"});
}

void tt_observe_end(struct tuttiComm *comm, const struct tt_binding *binding, tuttiResult_t result)
{
  if (comm->calls.explainer) tt_explain_end(comm, result);
  if (comm->calls.span_ns) span_add(comm, binding, result);
  comm->calls.span_ns = 0;
}
