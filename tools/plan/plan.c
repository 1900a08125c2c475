/* SPDX-License-Identifier: BSD-3-Clause */
#include "plan/plan.h"

#include <string.h>

#include "base/text.h"
#include "codec/codec.h"
#include "explain/hypothetical.h"
#include "planner/flight.h"
#include "planner/price.h"
#include "plan/layers_private.h"

#define POLICIES_MOST 16
#define TEXT_BYTES 240

/* The policies of "all". */
static const char *const policies_all[] = {"wfbp",    "single", "threshold:25M,1M", "horovod:128M", "mgwfbp",
                                           "optimal", "p3",     "fifo",             "auto"};

#define CHANNELS 8 /* where it is not told */

struct asked {
  struct tt_layers layers;
  struct tt_message_cost cost, server; /* of all-reduces; of a server's push, update and way back */
  int has_server;
  char cost_text[TEXT_BYTES], codec_text[2 * TEXT_BYTES];
  struct tt_planned planned[POLICIES_MOST];
  int n;
};

static tuttiResult_t request_check(const struct tt_plan_request *request)
{
  double a = request->alpha_us, b = request->beta_us_per_byte;
  if (request->has_cost && (!(a >= 0 && a <= 1e12) || !(b >= 0 && b <= 1e6)))
    return tt_fail(tuttiInvalidArgument, "a message costs %g us and %g us for each byte: give times from 0 to 1e12 and "
                   "from 0 to 1e6", a, b);
  if (!(request->turn_us_per_byte >= 0 && request->turn_us_per_byte <= 1e6))
    return tt_fail(tuttiInvalidArgument, "a server takes %g us for each byte: give a time from 0 to 1e6",
                   request->turn_us_per_byte);
  if (request->has_gap && !(request->gap_us >= 0 && request->gap_us <= 1e12))
    return tt_fail(tuttiInvalidArgument, "links are held for %g us of a start-up: give a time from 0 to 1e12",
                   request->gap_us);
  if (request->channels < 0 || request->channels > TT_FLIGHT_MOST)
    return tt_fail(tuttiInvalidArgument, "there are %d channels: give 1 to %d", request->channels, TT_FLIGHT_MOST);
  if (request->has_cost && request->nranks)
    return tt_fail(tuttiInvalidArgument, "both a cost and a number of ranks, %d, are given: leave one out",
                   request->nranks);
  if (!request->has_cost && !request->nranks)
    return tt_fail(tuttiInvalidArgument, "nothing says what a message costs: give a cost or a number of ranks");
  return tuttiSuccess;
}

/* The start-up is that of the shortest message. */
static void gap_take(struct tt_message_cost *cost, const struct tt_plan_request *request)
{
  double startup_us = tt_message_us(cost, 0);
  if (!request->has_gap || request->gap_us >= startup_us) return;
  cost->free = 1 - request->gap_us / startup_us;
  cost->channels = request->channels ? request->channels : CHANNELS;
}

/* The longest of push, update and way back is what slices have in common; the rest of them overlaps. */
static void server_overlap(struct tt_message_cost *cost, double byte_us)
{
  cost->byte_us = byte_us;
  cost->free = 1;
  cost->channels = TT_FLIGHT_MOST;
}

static tuttiResult_t all_reduces_price(struct tt_message_cost *cost, const struct tt_hypothetical *place)
{
  struct tt_table *table = tt_alloc(1, sizeof *table);
  if (!table) return tt_fail(tuttiSystemError, "no memory for the prices of messages: give the process more");
  tuttiResult_t result = tt_table_make(table, &place->settings, &place->tuning);
  if (result == tuttiSuccess) result = tt_message_cost_price(cost, table, &place->settings, &place->tuning);
  tt_free(table);
  return result;
}

/* Each rank is a server. As played: measured times of "direct" have waits of all for all, which servers have not. */
static tuttiResult_t server_price(struct asked *asked, struct tt_hypothetical *place)
{
  static const struct tt_profile no_anchors;
  if (!asked->has_server) return tuttiSuccess;
  place->prices.profile = &no_anchors;
  snprintf(place->settings.algo, sizeof place->settings.algo, "allreduce:direct");
  tuttiResult_t result = all_reduces_price(&asked->server, place);
  if (result == tuttiSuccess) server_overlap(&asked->server, asked->server.byte_us);
  return result;
}

/* "all-reduces of 64 ranks on 64 nodes (0.95 Gbit/s, 12 us a message: built in) as predicted: ..." */
static void cost_tell(struct asked *asked, const struct tt_hypothetical *place)
{
  char us[2][TT_US_BYTES], link[96] = "";
  int nranks = place->topology.nranks, nnodes = place->topology.nnodes;
  const struct tt_origin *origin = &place->prices.origin[TT_LINK_NET];
  const struct tt_curve *curve = &place->prices.links.link[TT_LINK_NET];
  const char *from = origin->is_said                           ? "as --link says"
                     : origin->profile == tt_profile_shipped() ? "built in; others by --link"
                     : origin->profile                         ? "of the profile"
                                                               : "a default; others by --link";
  if (nnodes > 1)
    snprintf(link, sizeof link, " (%.3g Gbit/s, %.3g us a message: %s)", tt_curve_gbits(curve),
             curve->part[0].alpha_us, from);
  snprintf(asked->cost_text, TEXT_BYTES,
           "all-reduces of %d rank%s on %d node%s%s as predicted: 4 KiB %s us, 4 MiB %s us", nranks,
           nranks == 1 ? "" : "s", nnodes, nnodes == 1 ? "" : "s", link,
           tt_us_text(tt_message_us(&asked->cost, 4096), us[0]),
           tt_us_text(tt_message_us(&asked->cost, 4 << 20), us[1]));
}

static tuttiResult_t cost_make(struct asked *asked, const struct tt_plan_request *request)
{
  if (request->has_cost) {
    double b = request->beta_us_per_byte, turn = request->turn_us_per_byte;
    asked->cost = tt_message_cost_line(request->alpha_us, b);
    asked->server = tt_message_cost_line(2 * request->alpha_us, 2 * b + turn);
    server_overlap(&asked->server, b > turn ? b : turn);
    snprintf(asked->cost_text, TEXT_BYTES, "a message of m bytes takes %g + %g m us", request->alpha_us, b);
    return tuttiSuccess;
  }
  struct tt_explain_request wanted = {.nranks = request->nranks,
                                  .nnodes = request->nnodes ? request->nnodes : request->nranks,
                                  .transports = request->transports,
                                  .profile = request->profile,
                                  .interface = request->interface,
                                  .link_gbits = request->link_gbits,
                                  .link_us = request->link_us};
  struct tt_hypothetical *place;
  tuttiResult_t result = tt_hypothetical_make(&place, &wanted);
  if (result != tuttiSuccess) return result;
  result = all_reduces_price(&asked->cost, place);
  cost_tell(asked, place);
  if (result == tuttiSuccess) result = server_price(asked, place);
  tt_hypothetical_destroy(place);
  return result;
}

#define SERVER "server"

static int is_server(const char *policy)
{
  size_t len = strlen(SERVER);
  return strncmp(policy, SERVER, len) == 0 && (!policy[len] || policy[len] == ':');
}

/* That of a server is p3's. */
static tuttiResult_t policy_parse(struct tt_policy *policy, const char *name)
{
  char text[64];
  if (!is_server(name)) return tt_policy_parse(policy, name);
  snprintf(text, sizeof text, "p3%s", name + strlen(SERVER));
  return tt_policy_parse(policy, text);
}

/* Policies of the request, without plans. */
static tuttiResult_t policies_find(struct asked *asked, const struct tt_plan_request *request)
{
  const char *const *names = &request->policy;
  int is_all = strcmp(request->policy, "all") == 0;
  tuttiResult_t result = tuttiSuccess;
  if (is_all) names = policies_all;
  asked->n = is_all ? (int)(sizeof policies_all / sizeof policies_all[0]) : 1;
  for (int k = 0; k < asked->n && result == tuttiSuccess; k++) {
    struct tt_policy *policy = &asked->planned[k].policy;
    asked->planned[k].name = names[k];
    asked->has_server |= is_server(names[k]);
    result = policy_parse(policy, names[k]);
    /* With "all", policies that send as tensors come are left unsliced, as their names say. */
    if (request->slice && (!is_all || policy->kind == TT_POLICY_P3 || policy->kind == TT_POLICY_FIFO ||
                            policy->kind == TT_POLICY_AUTO))
      policy->slice = request->slice;
  }
  return result;
}

#define CODEC_LEAST 1024 /* parameters, as fusions have it */
#define CODED_TYPE 0x100 /* as in fusions */
#define CODEC_TYPE 0x200

/* How gradients travel, and the weights in place of sums, 0 bytes: sums do. */
struct travel {
  struct tt_codec codec; /* row NULL: none */
  size_t weights;
};

/* The length of a layer as it travels. */
static tuttiResult_t layer_code(struct tt_tensor *tensor, const struct travel *travel, int nranks)
{
  struct tt_codec codec = tensor->count < CODEC_LEAST ? (struct tt_codec){.row = NULL} : travel->codec;
  if (!codec.row && !travel->weights) return tuttiSuccess;
  tuttiResult_t result = codec.row ? tt_codec_check(&codec, tensor->count, nranks) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  uint64_t unit = codec.row ? tt_codec_unit(&codec, tensor->count) : 1, wire;
  if (travel->weights) wire = tt_codec_wire_update(&codec, unit, nranks, sizeof(float), travel->weights);
  else wire = tt_codec_wire(&codec, tensor->count, nranks);
  tensor->count = (tensor->count + unit - 1) / unit;
  tensor->bytes = tensor->count * wire;
  tensor->type = codec.row ? CODED_TYPE | CODEC_TYPE : CODED_TYPE;
  tensor->grain = (uint32_t)unit;
  return result;
}

static tuttiResult_t update_read(struct travel *travel, const char *update)
{
  if (strcmp(update, "float") == 0) travel->weights = 4;
  else if (strcmp(update, "half") == 0 || strcmp(update, "bfloat16") == 0) travel->weights = 2;
  else return tt_fail(tuttiInvalidArgument, "weights travel as %.40s: give float, half or bfloat16", update);
  if (!travel->codec.row || tt_codec_route(&travel->codec) == TT_CODEC_OWNER) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "codec %s sends gradients to all ranks, not to owners that update weights: "
                 "leave one out", tt_codec_name(travel->codec.row));
}

static tuttiResult_t travel_read(struct travel *travel, const struct tt_plan_request *request)
{
  tuttiResult_t result = tuttiSuccess;
  *travel = (struct travel){.weights = 0};
  if (request->codec && !request->nranks)
    return tt_fail(tuttiInvalidArgument, "the codec is %.40s, but no number of ranks is given: its bytes depend on "
                   "that", request->codec);
  if (request->codec) result = tt_codec_parse(&travel->codec, request->codec);
  if (result == tuttiSuccess && request->update) result = update_read(travel, request->update);
  return result;
}

static void travel_text(struct asked *asked, const struct travel *travel, const char *update, double part)
{
  char text[TT_CODEC_TEXT_BYTES] = "";
  if (travel->codec.row) tt_codec_text(&travel->codec, text);
  snprintf(asked->codec_text, sizeof asked->codec_text,
           "%s%s%s%s%.10s: gradients count as %.4g %% of their bytes (%.4g times fewer)\n",
           text[0] ? "codec " : "", text, text[0] && update ? ", " : "", update ? "weights from their owners as " : "",
           update ? update : "", 100 * part, 1 / part);
}

static tuttiResult_t codec_take(struct asked *asked, const struct tt_plan_request *request)
{
  struct travel travel;
  struct tt_tensor *tensors = (struct tt_tensor *)(uintptr_t)asked->layers.net.tensors; /* they are this request's */
  uint64_t before = 0, after = 0;
  tuttiResult_t result = travel_read(&travel, request);
  if (!request->codec && !request->update) return result;
  for (int32_t l = 0; l < asked->layers.net.n && result == tuttiSuccess; l++) {
    before += tensors[l].bytes;
    result = layer_code(&tensors[l], &travel, request->nranks);
    after += tensors[l].bytes;
  }
  if (result == tuttiSuccess && after) travel_text(asked, &travel, request->update, (double)after / (double)before);
  return result;
}

static tuttiResult_t table_read(struct asked *asked, const struct tt_plan_request *request)
{
  tuttiResult_t result = tt_layers_load(&asked->layers, request->table);
  return result == tuttiSuccess ? policies_find(asked, request) : result;
}

static tuttiResult_t asked_fill(struct asked *asked, const struct tt_plan_request *request)
{
  double bound_us = 0;
  tuttiResult_t result = table_read(asked, request);
  if (result == tuttiSuccess) result = codec_take(asked, request);
  if (result == tuttiSuccess) result = tt_model_check(&asked->layers.net);
  if (result == tuttiSuccess) result = cost_make(asked, request);
  gap_take(&asked->cost, request);
  const struct tt_message_cost *cost = asked->has_server ? &asked->server : &asked->cost; /* it is the only policy */
  if (result == tuttiSuccess) result = tt_fusion_bound(&asked->layers.net, cost, &bound_us);
  for (int k = 0; k < asked->n && result == tuttiSuccess; k++) {
    struct tt_planned *planned = &asked->planned[k];
    planned->bound_us = bound_us;
    result = tt_fusion_plan_make(&planned->plan, &planned->policy, &asked->layers.net, cost);
    if (result == tuttiSuccess)
      result = tt_fusion_plan_play(&planned->played, &planned->plan, &asked->layers.net, cost);
  }
  return result;
}

static void json_print(FILE *out, const struct asked *asked)
{
  if (asked->n > 1) fputs("[\n", out);
  for (int k = 0; k < asked->n; k++) {
    tt_planned_json(out, &asked->planned[k]);
    fputs(k + 1 < asked->n ? ",\n" : "\n", out);
  }
  if (asked->n > 1) fputs("]\n", out);
}

static tuttiResult_t all_print(const struct asked *asked, const struct tt_plan_request *request, FILE *out, FILE *data)
{
  if (out && request->json) json_print(out, asked);
  else if (out) {
    fprintf(out, "%s\n%s", asked->cost_text, asked->codec_text);
    if (asked->n > 1) tt_planned_compare(out, asked->planned, asked->n, &asked->layers);
    else tt_planned_print(out, &asked->planned[0], &asked->layers);
  }
  if (data) tt_planned_data(data, &asked->planned[asked->n - 1], &asked->layers, asked->cost_text);
  if ((out && ferror(out)) || (data && ferror(data))) return tt_fail(tuttiSystemError, "the plan cannot be written");
  return tuttiSuccess;
}

static tuttiResult_t asked_make(struct asked **made)
{
  *made = tt_alloc(1, sizeof **made);
  return *made ? tuttiSuccess : tt_fail(tuttiSystemError, "no memory for a plan: give the process more");
}

static void asked_destroy(struct asked *asked)
{
  for (int k = 0; k < POLICIES_MOST; k++) {
    tt_played_destroy(&asked->planned[k].played);
    tt_fusion_plan_destroy(&asked->planned[k].plan);
  }
  tt_layers_destroy(&asked->layers);
  tt_free(asked);
}

tuttiResult_t tt_plan_print(const struct tt_plan_request *request, FILE *out, FILE *data)
{
  tuttiResult_t result = request_check(request);
  if (result != tuttiSuccess) return result;
  struct asked *asked;
  result = asked_make(&asked);
  if (result != tuttiSuccess) return result;
  result = asked_fill(asked, request);
  if (result == tuttiSuccess) result = all_print(asked, request, out, data);
  asked_destroy(asked);
  return result;
}

tuttiResult_t tt_plan_check(const struct tt_plan_request *request)
{
  struct asked *asked;
  tuttiResult_t result = asked_make(&asked);
  if (result != tuttiSuccess) return result;
  result = table_read(asked, request);
  asked_destroy(asked);
  return result;
}
