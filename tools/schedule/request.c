/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/request_private.h"

#include <stdlib.h>
#include <string.h>

#define LIST_BYTES 384

/* ---- names ------------------------------------------------------------------------- */

/* "ring, binary_tree, ...". */
static const char *names_list(int collective, char *list)
{
  size_t used = 0;
  list[0] = 0;
  for (int k = 0; k < tt_algo_count && used < LIST_BYTES; k++)
    if (tt_algos[k].collective == collective)
      used += (size_t)snprintf(list + used, LIST_BYTES - used, "%s%s", used ? ", " : "", tt_algos[k].name);
  return list;
}

static tuttiResult_t algo_find(struct tt_request *made, const struct tt_schedule_request *request)
{
  char list[LIST_BYTES];
  int kind = tt_kind_find(request->collective);
  made->shape.middle = -1;
  if (!request->collective[0])
    return tt_fail(tuttiInvalidArgument, "no collective is named: take one of %s", tt_kind_names(list, LIST_BYTES));
  if (kind == TT_NO_COLLECTIVE)
    return tt_fail(tuttiInvalidArgument, "there is no collective \"%.40s\": take one of %s", request->collective,
                   tt_kind_names(list, LIST_BYTES));
  made->algo = tt_algo_find(kind, request->algorithm);
  if (!made->algo && !(request->algorithm && request->algorithm[0]))
    return tt_fail(tuttiInvalidArgument, "no algorithm is named (--algo): %s has %s", tt_kinds[kind].name,
                   names_list(kind, list));
  if (!made->algo)
    return tt_fail(tuttiInvalidArgument, "%s has no algorithm \"%.40s\": take one of %s", tt_kinds[kind].name,
                   request->algorithm, names_list(kind, list));
  if (!request->middle) return tuttiSuccess;
  const struct tt_algo *middle = tt_algo_find(TT_ALL_REDUCE, request->middle);
  if (!made->algo->has_middle)
    return tt_fail(tuttiInvalidUsage, "%s has no middle step: leave \"%.40s\" out", made->algo->name, request->middle);
  if (!middle)
    return tt_fail(tuttiInvalidArgument, "\"%.40s\" is no all_reduce to run among the leaders: take one of %s",
                   request->middle, names_list(TT_ALL_REDUCE, list));
  made->shape.middle = (int32_t)(middle - tt_algos);
  return tuttiSuccess;
}

/* One pass, of the `len` characters at `at`; 0 if it is none. */
static int pass_read(struct tt_request *made, const char *at, size_t len)
{
  enum tt_request_pass *pass = &made->passes[made->npasses++];
  char *end = NULL;
  if (len == 5 && memcmp(at, "merge", len) == 0) *pass = TT_PASS_MERGE;
  else if (len == 4 && memcmp(at, "fuse", len) == 0) *pass = TT_PASS_FUSE;
  else if (len > 9 && memcmp(at, "channels=", 9) == 0 && !made->nchannels) {
    long n = strtol(at + 9, &end, 10);
    *pass = TT_PASS_CHANNELS;
    made->nchannels = end == at + len && n >= 1 && n <= 4 ? (int)n : 0;
    return made->nchannels;
  } else return 0;
  return 1;
}

static tuttiResult_t passes_read(struct tt_request *made, const char *text)
{
  for (const char *at = text; at && *at;) {
    size_t len = strcspn(at, ",");
    if (made->npasses == TT_REQUEST_PASSES || !pass_read(made, at, len))
      return tt_fail(tuttiInvalidArgument, "passes are \"%.80s\": wanted at most %d of merge, fuse and channels=N "
                     "(once, N from 1 to 4), separated by commas", text, TT_REQUEST_PASSES);
    at += len + (at[len] == ',');
  }
  return tuttiSuccess;
}

/* ---- machine ------------------------------------------------------------------------ */

/* All ranks on one node, of which nothing is known. */
static tuttiResult_t topology_invent(struct tt_request *made, int nranks)
{
  uint64_t *host = tt_alloc((size_t)nranks, sizeof *host);
  struct tt_locality *localities = tt_alloc((size_t)nranks, sizeof *localities);
  tuttiResult_t code = tuttiSystemError;
  for (int r = 0; localities && r < nranks; r++) localities[r] = (struct tt_locality){-1, -1};
  if (host && localities) code = tt_topology_make(&made->topology, nranks, host, localities);
  else tt_fail(code, "no memory for the topology of %d ranks", nranks);
  tt_free(host);
  tt_free(localities);
  return code;
}

static tuttiResult_t machine_make(struct tt_request *made, const struct tt_schedule_request *request)
{
  if (request->nranks < 0 || request->nranks > TT_TOPOLOGY_MAX_RANKS || (!request->nranks && !request->topology))
    return tt_fail(tuttiInvalidArgument, "the number of ranks is %d: give 1 to %d (-n), or a topology", request->nranks,
                   TT_TOPOLOGY_MAX_RANKS);
  tuttiResult_t code = made->has_topology ? tuttiSuccess : topology_invent(made, request->nranks);
  if (!code) code = tt_topology_arrange(&made->arrangement, &made->topology, request->group_size);
  if (code) return code;
  made->shape.nranks = made->topology.nranks;
  if (made->arrangement.groups.nlevels) made->shape.groups = &made->arrangement.groups;
  if (tt_kinds[made->algo->collective].is_shared) return tuttiSuccess;
  for (int32_t p = 0; p < made->shape.nranks; p++)
    if (made->arrangement.order[p] != p) made->order = made->arrangement.order;
  return tuttiSuccess;
}

/* ---- shape --------------------------------------------------------------------------- */

static tuttiResult_t numbers_check(const struct tt_request *made, const struct tt_schedule_request *request)
{
  const struct tt_algo *algo = made->algo;
  const char *name = tt_kinds[algo->collective].name;
  int has_root = tt_kinds[algo->collective].has_root;
  if (has_root && (request->root < 0 || request->root >= made->shape.nranks))
    return tt_fail(tuttiInvalidArgument, "root is %d: of %d ranks it is one from 0 to %d", request->root,
                   (int)made->shape.nranks, (int)made->shape.nranks - 1);
  if (!has_root && request->root)
    return tt_fail(tuttiInvalidArgument, "root is %d: %s has none", request->root, name);
  if (request->radix && request->radix < 2)
    return tt_fail(tuttiInvalidArgument, "radix is %d: give 2 or more", request->radix);
  if (request->radix && !algo->has_radix)
    return tt_fail(tuttiInvalidUsage, "radix is %d: %s has none", request->radix, algo->name);
  if (request->blocks < 0) return tt_fail(tuttiInvalidArgument, "blocks is %d: give 1 or more", request->blocks);
  if (request->group_size < 0)
    return tt_fail(tuttiInvalidArgument, "the group size is %d: give 1 or more", request->group_size);
  return tuttiSuccess;
}

#define MOST_BLOCKS ((int64_t)1 << 29)
#define MOST_BYTES ((size_t)1 << 60)

/* Numbers that can still be multiplied with each other. */
static tuttiResult_t size_check(const struct tt_request *made)
{
  const struct tt_shape *shape = &made->shape;
  int64_t shares = tt_kinds[shape->collective].is_shared ? shape->nranks : 1;
  int64_t channels = made->nchannels ? made->nchannels : 1;
  size_t bytes;
  if ((int64_t)shape->nblocks > MOST_BLOCKS / shares / channels)
    return tt_fail(tuttiInvalidArgument, "blocks is %d: with %lld shares and %lld channels at most %lld are possible",
                   (int)shape->nblocks, (long long)shares, (long long)channels,
                   (long long)(MOST_BLOCKS / shares / channels));
  if (__builtin_mul_overflow(made->count, made->element_bytes, &bytes) || bytes > MOST_BYTES / (size_t)shares)
    return tt_fail(tuttiInvalidArgument, "count is %zu: give at most %zu elements of %zu bytes",
                   made->count, MOST_BYTES / (size_t)shares / made->element_bytes, made->element_bytes);
  return tuttiSuccess;
}

static tuttiResult_t counts_check(const struct tt_request *made, const struct tt_schedule_request *request)
{
  if (request->ncounts && made->nchannels > 1)
    return tt_fail(tuttiInvalidArgument, "counts are given, and passes are %s: shares with counts are not cut for "
                   "channels", request->passes);
  if (!request->ncounts || request->ncounts == made->shape.nranks) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "there are %d counts: give one for each of the %d ranks", request->ncounts,
                 (int)made->shape.nranks);
}

static tuttiResult_t shape_make(struct tt_request *made, const struct tt_schedule_request *request)
{
  struct tt_shape *shape = &made->shape;
  shape->root = tt_kinds[made->algo->collective].has_root ? request->root : -1;
  for (int32_t p = 0; made->order && shape->root >= 0 && p < shape->nranks; p++)
    if (made->order[p] == request->root) {
      shape->root = p;
      break;
    }
  shape->radix = request->radix;
  shape->collective = made->algo->collective;
  const char *why = made->algo->illegal ? made->algo->illegal(shape) : NULL;
  if (why)
    return tt_fail(tuttiInvalidUsage, "%s is not legal for %s of %d ranks: %s", made->algo->name,
                   tt_kinds[shape->collective].name, (int)shape->nranks, why);
  tt_algo_shape(made->algo, shape);
  if (request->blocks) shape->nblocks = request->blocks;
  made->element_bytes = request->element_bytes ? request->element_bytes : 4;
  made->count = request->count;
  if (!made->count) made->count = (size_t)shape->nblocks * (size_t)(made->nchannels ? made->nchannels : 1);
  if (request->ncounts) made->counts = request->counts;
  tuttiResult_t code = counts_check(made, request);
  return code ? code : size_check(made);
}

tuttiResult_t tt_request_make(struct tt_request *made, const struct tt_schedule_request *request)
{
  *made = (struct tt_request){.has_topology = request->topology != NULL};
  tuttiResult_t code = tuttiSuccess; /* a wrong file is told before what is missing */
  if (made->has_topology) code = tt_topology_load(&made->topology, request->topology, request->nranks);
  if (!code) code = algo_find(made, request);
  if (!code) code = passes_read(made, request->passes);
  if (!code) code = machine_make(made, request);
  if (!code) code = numbers_check(made, request);
  if (!code) code = shape_make(made, request);
  if (code) tt_request_destroy(made);
  return code;
}

void tt_request_destroy(struct tt_request *request)
{
  tt_arrangement_destroy(&request->arrangement);
  tt_topology_destroy(&request->topology);
}

/* ---- schedules ------------------------------------------------------------------------ */

void tt_request_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *request)
{
  const struct tt_request *made = request;
  made->algo->generate(schedule, shape);
  for (int p = 0; p < made->npasses; p++) switch (made->passes[p]) {
    case TT_PASS_MERGE: tt_pass_merge(schedule); break;
    case TT_PASS_FUSE: tt_pass_fuse(schedule); break;
    default: tt_pass_channels(schedule, made->nchannels);
    }
}

void tt_request_generate_rank(struct tt_schedule *schedule, const struct tt_shape *shape, void *request)
{
  const struct tt_request *made = request;
  struct tt_shape place = *shape;
  for (int32_t p = 0; made->order && p < shape->nranks; p++)
    if (made->order[p] == shape->rank) {
      place.rank = p;
      break;
    }
  schedule->shape.rank = place.rank;
  tt_request_generate(schedule, &place, request);
  if (made->order) tt_pass_order(schedule, made->order);
}
