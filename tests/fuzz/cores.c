/* SPDX-License-Identifier: BSD-3-Clause */
/* Pure cores that are given what other ranks have said: decision tables, codes, words of views and of replicas,
 * contributions and decisions of servers, reports, orders and offers of their takeovers, rounds of a fusion. Events
 * come in any order, with any numbers. */
#include <string.h>

#include "algos/algos.h"
#include "chance.h"
#include "codecs.h"
#include "fusion/round_private.h"
#include "fusion/sequence_private.h"
#include "fuzz.h"
#include "raft/raft.h"
#include "server/failover.h"
#include "server/server.h"
#include "server/takeover.h"
#include "tuner/tuner.h"
#include "view/view.h"

/* ---- views ---- */

static uint64_t small_take(struct fuzz_bytes *input)
{
  uint64_t number = fuzz_take(input, 1);
  return number < 250 ? number % 16 : number < 253 ? ~0ull : fuzz_take(input, 8);
}

static void decision_take(struct fuzz_bytes *input, struct tt_view_decision *decision)
{
  *decision =
      (struct tt_view_decision){.view = small_take(input), .last = small_take(input), .ends = small_take(input) % 3};
  decision->lost.bits[0] = small_take(input);
}

static void view_run(const uint8_t *bytes, size_t len)
{
  enum { RANKS = 4 };
  struct fuzz_bytes input = {bytes, len};
  struct tt_view *view;
  int in_op = 0, changes = 0;
  FUZZ_CHECK(tt_view_create(&view, RANKS, 1, 1) == tuttiSuccess);
  while (input.left) {
    struct tt_view_word word = {0};
    int what = (int)fuzz_take(&input, 1);
    switch (what % 5) {
    case 0:
      if (!in_op && !changes) in_op = tt_view_begin(view) == TT_VIEW_RUNS;
      break;
    case 1:
      if (in_op && !changes) tt_view_held(view);
      break;
    case 2:
      if (in_op && !changes) changes = 1, tt_view_stop(view, what & 64 ? tuttiSystemError : tuttiSuccess);
      break;
    case 3: tt_view_lose(view, (int)(fuzz_take(&input, 1) % RANKS), what & 64); break;
    default:
      word = (struct tt_view_word){.number = small_take(&input),
                                   .view = small_take(&input),
                                   .phase = small_take(&input) % 4,
                                   .op = small_take(&input),
                                   .held = small_take(&input),
                                   .ends = small_take(&input) % 3};
      word.lost.bits[0] = small_take(&input);
      decision_take(&input, &word.promised);
      decision_take(&input, &word.decided);
      tt_view_hear(view, what / 5 % RANKS, &word);
    }
    for (enum tt_view_act act; (act = tt_view_next(view)) != TT_VIEW_NOTHING;) {
      if (act == TT_VIEW_SAY) continue;
      FUZZ_CHECK(act == TT_VIEW_CHANGED || act == TT_VIEW_EXPELLED);
      in_op = changes = 0;
      (void)tt_view_succeeds(view);
    }
    FUZZ_CHECK(tt_view_said(view)->view >= 1);
    for (int r = 0; r < RANKS; r++) (void)tt_view_awaits(view, r);
    (void)tt_view_is_stopping(view);
  }
  tt_view_destroy(view);
}

static size_t view_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const uint8_t stop[] = {0, 1, 3,  2, 2, 4, 1, 1, 1, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0,
                                 0, 0, 14, 1, 1, 1, 1, 1, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0};
  if (number > 3) return 0;
  memcpy(bytes, stop, sizeof stop);
  bytes[6] = (uint8_t)(number + 1);
  return sizeof stop - (size_t)number * 5;
}

/* ---- replicas of a rank ---- */

static void raft_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct tt_raft raft = {.n = 1 + (int)fuzz_take(&input, 1) % TT_RAFT_REPLICAS};
  raft.self = (int)fuzz_take(&input, 1) % raft.n;
  while (input.left) {
    int what = (int)fuzz_take(&input, 1), other = what / 8 % raft.n;
    struct tt_raft_entry entry = {small_take(&input), small_take(&input), small_take(&input)};
    struct tt_raft_word word = {.number = small_take(&input), .term = small_take(&input), .last = entry};
    uint64_t committed = raft.said.committed;
    switch (what % 5) {
    case 0: tt_raft_campaign(&raft); break;
    case 1: (void)tt_raft_propose(&raft, (uint64_t)what); break;
    case 2: tt_raft_shown(&raft, &entry, small_take(&input)); break;
    case 3:
      if (other != raft.self) tt_raft_acked(&raft, other, &entry);
      break;
    default:
      word.vote = small_take(&input);
      word.leads = small_take(&input) % 2;
      word.committed = small_take(&input);
      if (other != raft.self) tt_raft_hear(&raft, other, &word);
    }
    for (int n = 0; tt_raft_next(&raft) != TT_RAFT_NOTHING; n++) FUZZ_CHECK(n < 100);
    FUZZ_CHECK(raft.said.committed >= committed);
    FUZZ_CHECK(tt_raft_leader(&raft) >= -1 && tt_raft_leader(&raft) < raft.n);
  }
}

static size_t raft_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const uint8_t all[] = {2, 0, 0, 0, 0, 0, 0, 0, 12, 1, 0, 0, 1, 1, 1,
                                0, 0, 1, 0, 0, 0, 0, 0, 11, 1, 1, 1, 0, 0};
  if (number > 3) return 0;
  memcpy(bytes, all, sizeof all);
  bytes[1] = (uint8_t)number;
  return sizeof all - (size_t)number;
}

/* ---- the server ---- */

static void server_run(const uint8_t *bytes, size_t len)
{
  enum { RANKS = 3, SHARDS = 2, SERVERS = 2 };
  static const int32_t urgency[SHARDS] = {1, 0};
  struct fuzz_bytes input = {bytes, len};
  struct tt_server_spec spec = {.kind = (enum tt_server_kind)(fuzz_take(&input, 1) % 6),
                                .nranks = RANKS,
                                .quorum = 1,
                                .nservers = SERVERS,
                                .nshards = SHARDS,
                                .urgency = urgency};
  struct tt_server_action action;
  struct tt_server *server;
  uint64_t kept = 0, given = 0, tag = 0;
  if (spec.kind == TT_SERVER_SYNCHRONOUS || spec.kind == TT_SERVER_SOFTSYNC) spec.quorum = 2;
  if (spec.kind != TT_SERVER_SYNCHRONOUS && spec.kind != TT_SERVER_EASGD) spec.staleness = 2;
  if (spec.kind == TT_SERVER_SYNCHRONOUS) spec.is_decider = 1;
  if (tt_server_create(&server, &spec) != tuttiSuccess) return;
  while (input.left) {
    uint64_t what = fuzz_take(&input, 1), set = 0, gets = 0;
    struct tt_contribution contribution;
    switch (what % 5) {
    case 0:
    case 1:
      contribution = (struct tt_contribution){(int)(small_take(&input) % 5) - 1, (int)(small_take(&input) % 4) - 1,
                                              small_take(&input), small_take(&input), ++tag};
      kept += tt_server_contribute(server, &contribution) == TT_KEPT;
      break;
    case 2:
      (void)tt_server_held(server, (int)(small_take(&input) % 4) - 1, (int)(small_take(&input) % 5) - 1,
                           small_take(&input));
      break;
    case 3:
      set = small_take(&input);
      gets = small_take(&input);
      (void)tt_server_decided(server, small_take(&input), &set, &gets);
      break;
    default:
      if (what > 200) tt_server_died(server, (int)(fuzz_take(&input, 1) % RANKS));
      else if (what & 1) (void)tt_server_seen(server, (int)(small_take(&input) % 5) - 1, small_take(&input));
      else (void)tt_server_show(server, (int)(small_take(&input) % 5) - 1, small_take(&input));
    }
    for (int n = 0; tt_server_next(server, &action) && n < 1000; n++) {
      if (action.act == TT_UPDATE || action.act == TT_DROP) {
        FUZZ_CHECK(action.ncounted >= 1 && action.ncounted <= RANKS + SHARDS * RANKS);
        for (int c = 0; c < action.ncounted; c++)
          FUZZ_CHECK(action.counted[c].tag >= 1 && action.counted[c].tag <= tag);
        given += (uint64_t)action.ncounted;
      }
      FUZZ_CHECK(n < 999);
    }
    FUZZ_CHECK(given <= kept); /* each at most once */
  }
  tt_server_destroy(server);
}

static size_t server_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  size_t n = 1;
  if (number > 4) return 0;
  bytes[0] = (uint8_t)number;
  for (uint8_t step = 0; step < 4; step++) {
    for (uint8_t rank = 0; rank < 3; rank++)
      for (uint8_t shard = 0; shard < 2; shard++) {
        const uint8_t event[] = {0, (uint8_t)(rank + 1), (uint8_t)(shard + 1), step, step};
        memcpy(bytes + n, event, sizeof event);
        n += sizeof event;
      }
    for (uint8_t rank = 0; rank < 3; rank++) {
      const uint8_t held[] = {2, (uint8_t)(1 + rank % 2), (uint8_t)(rank + 1), step};
      memcpy(bytes + n, held, sizeof held);
      n += sizeof held;
    }
    const uint8_t decided[] = {3, 7, step};
    memcpy(bytes + n, decided, sizeof decided);
    n += sizeof decided;
  }
  return n;
}

/* ---- takeovers ---- */

enum { HEIRS = 4 };
#define ALL_HEIRS (uint64_t)15

/* Sets of ranks, some of them with one that there is not. */
static uint64_t set_take(struct fuzz_bytes *input)
{
  uint64_t set = fuzz_take(input, 1);
  return set < 250 ? set & ALL_HEIRS : set;
}

static void takeover_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct tt_takeover *takeover;
  struct tt_takeover_action action;
  uint64_t died = 0;
  FUZZ_CHECK(tt_takeover_create(&takeover, HEIRS, 1, 2) == tuttiSuccess);
  while (input.left) {
    int what = (int)fuzz_take(&input, 1), from = what / 3 % (HEIRS + 2) - 1;
    uint64_t dead = set_take(&input), holders = set_take(&input), version = small_take(&input);
    const struct tt_takeover_report report = {&dead, &holders, version, small_take(&input)};
    int32_t owners[HEIRS];
    const struct tt_takeover_order order = {&dead, &holders, owners, version};
    for (int share = 0; share < HEIRS; share++) owners[share] = (int32_t)(small_take(&input) % 6) - 1;
    if (what % 3 == 0) {
      tt_takeover_died(takeover, from);
      if (from >= 0 && from < HEIRS && from != 1) died |= 1u << from;
    } else if (what % 3 == 1) FUZZ_CHECK(!tt_takeover_reported(takeover, from, &report) || !(dead & ~ALL_HEIRS));
    else if (tt_takeover_ordered(takeover, from, &order))
      FUZZ_CHECK(!(dead & ~ALL_HEIRS) && !(holders & ~ALL_HEIRS) && !(dead & holders));
    for (int n = 0; tt_takeover_next(takeover, &action); n++) {
      FUZZ_CHECK(n < 100 && action.to >= 0 && action.to < HEIRS);
      FUZZ_CHECK(action.act == TT_BEGIN || action.act == TT_DOOMED || !(died >> action.to & 1));
    }
    FUZZ_CHECK(tt_takeover_epoch(takeover) <= __builtin_popcountll(died));
    for (int share = 0; share < HEIRS; share++) {
      int owner = tt_takeover_owner(takeover, share);
      FUZZ_CHECK(owner >= 0 && owner < HEIRS);
      FUZZ_CHECK(tt_takeover_is_stopped(takeover) || !(died >> owner & 1));
    }
  }
  tt_takeover_destroy(takeover);
}

static size_t takeover_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  /* Rank 0 dies; the others report to this one, which orders; or rank 2 and 3 die, and rank 0 orders. */
  static const uint8_t first[][9] = {{3, 0, 0, 0, 0, 0, 0, 0, 0}, {7, 1, 2, 5, 4, 0, 0, 0, 0},
                                     {10, 1, 4, 5, 4, 0, 0, 0, 0}, {13, 1, 8, 4, 4, 0, 0, 0, 0},
                                     {8, 1, 6, 5, 0, 2, 2, 3, 4}};
  static const uint8_t other[][9] = {{9, 0, 0, 0, 0, 0, 0, 0, 0}, {5, 4, 3, 6, 0, 1, 2, 1, 4},
                                     {12, 0, 0, 0, 0, 0, 0, 0, 0}, {5, 12, 3, 6, 0, 1, 2, 1, 2},
                                     {5, 12, 0, 6, 0, 0, 0, 0, 0}};
  if (number > 3) return 0;
  memcpy(bytes, number % 2 ? other : first, sizeof first);
  return sizeof first - (size_t)(number / 2) * 9;
}

static void failover_run(const uint8_t *bytes, size_t len)
{
  static const int nshards[HEIRS] = {2, 1, 0, 1};
  struct fuzz_bytes input = {bytes, len};
  struct tt_failover *failover;
  struct tt_failover_action action;
  uint64_t died = 0;
  int served[HEIRS] = {0};
  FUZZ_CHECK(tt_failover_create(&failover, HEIRS, 1, nshards, (int)fuzz_take(&input, 1) % 2) == tuttiSuccess);
  while (input.left) {
    int what = (int)fuzz_take(&input, 1), from = what / 2 % (HEIRS + 2) - 1;
    if (what % 2 == 0) {
      FUZZ_CHECK(tt_failover_died(failover, from) == tuttiSuccess);
      if (from >= 0 && from < HEIRS && from != 1) died |= 1u << from;
    } else {
      uint64_t set = 0;
      struct tt_offer offer = {.share = (int)(small_take(&input) % 6) - 1, .shard = (int)(small_take(&input) % 4) - 1};
      offer.version = small_take(&input);
      offer.steps = small_take(&input);
      offer.is_odd = what > 127;
      offer.set = &set;
      set = set_take(&input);
      (void)tt_failover_offered(failover, from, &offer);
    }
    for (int n = 0; tt_failover_next(failover, &action); n++) {
      FUZZ_CHECK(n < 100 && action.share >= 0 && action.share < HEIRS && !(died >> action.to & 1));
      if (action.act == TT_SERVE) FUZZ_CHECK(!served[action.share]++);
    }
    for (int share = 0; share < HEIRS; share++) {
      int owner = tt_failover_owner(failover, share);
      FUZZ_CHECK(owner >= 0 && owner < HEIRS && !(died >> owner & 1));
      FUZZ_CHECK(tt_failover_serves(failover, share) == (share == 1 || served[share]));
      for (int shard = 0; served[share] && shard < nshards[share]; shard++) {
        (void)tt_failover_version(failover, share, shard);
        for (int rank = 0; rank < HEIRS; rank++) (void)tt_failover_progress(failover, share, shard, rank);
      }
    }
  }
  tt_failover_destroy(failover);
}

static size_t failover_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  /* Rank 0 dies, and the others offer its two shards. */
  static const uint8_t all[] = {0, 2, 5, 1, 1, 3, 2, 7, 5, 1, 2, 3, 2, 7, 7, 1, 1, 4, 3, 2, 7, 1, 2, 4, 3, 1,
                                9, 1, 1, 3, 2, 7, 9, 1, 2, 3, 2, 7};
  if (number > 3) return 0;
  memcpy(bytes, all, sizeof all);
  bytes[0] = (uint8_t)number;
  return sizeof all - (size_t)(number / 2) * 6;
}

/* ---- rounds of a fusion ---- */

static void rounds_run(const uint8_t *bytes, size_t len)
{
  enum { GROUPS = 3, WORDS = 3 };
  static const int32_t groups[] = {0, 0, 1, 2};
  static const uint64_t sizes[] = {100, 100, 4, 1000000};
  const struct tt_sequence_plan plan = {
      .nmessages = 4, .ngroups = GROUPS, .nchannels = 2, .by_priority = 1, .groups = groups, .bytes = sizes};
  struct fuzz_bytes input = {bytes, len};
  struct tt_sequence sequence = {0};
  struct tt_fusion_round round = {0};
  uint64_t frame[TT_ROUND_PART + WORDS];
  uint64_t step = 1;
  FUZZ_CHECK(TT_SEQUENCE_WORDS(GROUPS) == WORDS);
  FUZZ_CHECK(tt_sequence_make(&sequence, &plan) == tuttiSuccess && tt_round_make(&round, 4, 1, WORDS) == tuttiSuccess);
  tt_sequence_start(&sequence, step);
  while (input.left) {
    int what = (int)fuzz_take(&input, 1), n;
    if (what % 4 == 0 && !round.is_open) {
      uint64_t part[WORDS];
      tt_sequence_tell(&sequence, part);
      tt_round_join(&round, step, part);
    } else {
      n = what % round.nphases;
      frame[TT_ROUND_NUMBER] = small_take(&input);
      frame[TT_ROUND_PHASE] = small_take(&input);
      frame[TT_ROUND_STEP] = small_take(&input);
      for (int k = 0; k < WORDS; k++) frame[TT_ROUND_PART + k] = what & 64 ? fuzz_take(&input, 8) : small_take(&input);
      if (tt_round_take(&round, n, frame) != tuttiSuccess) break;
    }
    while (tt_round_send(&round, frame, &n)) FUZZ_CHECK(n >= 0 && n < round.nphases);
    if (tt_round_ends(&round) && tt_sequence_decide(&sequence, round.sum) != tuttiSuccess) break;
    struct tt_sequence_begin begin;
    for (int k = 0; k < 8 && !round.is_open && tt_sequence_next(&sequence, &begin); k++) {
      FUZZ_CHECK(begin.message >= 0 && begin.message < plan.nmessages && begin.channel >= 0 &&
                 begin.channel <= plan.nchannels);
      tt_sequence_begin(&sequence, &begin);
      tt_sequence_end(&sequence, begin.channel);
    }
  }
  tt_round_destroy(&round);
  tt_sequence_destroy(&sequence);
}

static size_t rounds_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const uint8_t all[] = {0, 1, 1, 0, 1, 0, 7, 7, 2, 1, 1, 1, 0, 7, 7,
                                0, 1, 2, 0, 1, 0, 7, 7, 2, 2, 1, 1, 0, 7, 7};
  if (number > 3) return 0;
  memcpy(bytes, all, sizeof all);
  bytes[5] = (uint8_t)number;
  return sizeof all - (size_t)number;
}

/* ---- rank 0's decision table ---- */

/* A valid choice has schedules for any number of ranks. */
static void choice_run(const struct tt_choice *choice)
{
  for (int32_t nranks = 1; nranks < 7; nranks += 2) {
    const struct tt_tuning tuning = {.nranks = nranks};
    struct tt_schedule schedule;
    int root = tt_kinds[tt_algos[choice->algo].collective].has_root ? 0 : -1;
    struct tt_shape shape = tt_choice_shape(choice, &tuning, nranks / 2, root);
    tt_schedule_init(&schedule, &shape);
    tt_algo_schedule(&tt_algos[choice->algo], &schedule, &shape, 0);
    FUZZ_CHECK(schedule.error == tuttiSuccess);
    tt_schedule_destroy(&schedule);
  }
}

/* Changes of a table of zeros with right ends of rows: a place, of 2 bytes, and a word of 8. */
static void table_run(const uint8_t *bytes, size_t len)
{
  static struct tt_table table;
  struct fuzz_bytes input = {bytes, len};
  char text[512];
  memset(&table, 0, sizeof table);
  for (int c = 0; c < TT_COLLECTIVES; c++) {
    int a = 0;
    while (a < tt_algo_count - 1 && tt_algos[a].collective != c) a++;
    table.rows[c][0] = (struct tt_table_row){UINT64_MAX, {.algo = (uint8_t)a, .middle = -1, .block_bytes = 65536}};
  }
  while (input.left >= 10) {
    size_t at = fuzz_take(&input, 2) % (sizeof table - 8);
    uint64_t word = fuzz_take(&input, 8);
    memcpy((char *)&table + at, &word, sizeof word);
  }
  if (!tt_table_valid(&table)) return;
  for (int c = 0; c < TT_COLLECTIVES; c++) {
    if (!tt_kinds[c].name) continue;
    tt_table_text(&table, c, text, sizeof text);
    for (int bits = 0; bits < 64; bits += 7) choice_run(tt_table_choice(&table, c, 1ull << bits));
  }
}

static size_t table_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  uint16_t at = (uint16_t)(number * 16);
  uint64_t word = (uint64_t)number * 0x0101010101u;
  if (number > 60) return 0;
  if (number > 30) { /* a choice of the first row */
    int algo = number % tt_algo_count;
    struct tt_choice choice = {.algo = (uint8_t)algo, .middle = (int8_t)(number % 5 - 2), .block_bytes = 4096};
    choice.radix = (uint16_t)(number % 3);
    at = (uint16_t)(offsetof(struct tt_table, rows[tt_algos[algo].collective][0].choice));
    memcpy(&word, &choice, sizeof choice);
  }
  memcpy(bytes, &at, 2);
  memcpy(bytes + 2, &word, 8);
  return number == 0 ? 9 : 10;
}

/* ---- codes ---- */

/* Byte 0: the codec; then count, capacity, ranks, stage. */
static void codes_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  int number = 0, which = (int)fuzz_take(&input, 1);
  while (codecs[number]) number++;
  struct tt_codec codec = codec_of(codecs[which % number]);
  struct tt_codec_piece piece = {.count = fuzz_take(&input, 2) % 600};
  piece.capacity = tt_codec_capacity(&codec, piece.count, (uint32_t)fuzz_take(&input, 1));
  piece.nranks = 1 + (int32_t)fuzz_take(&input, 1) % 9;
  if (fuzz_take(&input, 1) % 2 && tt_codec_route(&codec) == TT_CODEC_OWNER) piece.stage = TT_CODEC_RESULT;
  uint64_t n = tt_codec_bytes(&codec, &piece);
  uint8_t *code = malloc(n + 1);
  float *sum = calloc(piece.count + 1, sizeof *sum);
  FUZZ_CHECK(code && sum);
  code = realloc(code, n ? n : 1);
  fuzz_fill(&input, code, n);
  tuttiResult_t result = tt_codec_decode_add(&codec, &piece, code, n, sum);
  FUZZ_CHECK(result == tuttiSuccess || result == tuttiInvalidArgument);
  free(code);
  free(sum);
}

static size_t codes_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  float values[100], planes[2][100] = {{0}}, *both[] = {planes[0], planes[1]};
  uint64_t chance = (uint64_t)number + 1;
  uint16_t count = 100;
  if (number < 0 || !codecs[number]) return 0;
  struct tt_codec codec = codec_of(codecs[number]);
  struct tt_codec_piece piece = {.count = count, .nranks = 2, .capacity = tt_codec_capacity(&codec, count, 0)};
  floats_draw(values, count, &chance);
  if (tt_codec_prepares(&codec)) tt_codec_prepare(&codec, values, count, &piece.facts);
  bytes[0] = (uint8_t)number;
  memcpy(bytes + 1, &count, 2);
  bytes[3] = 0;
  bytes[4] = 1;
  bytes[5] = 0;
  tt_codec_encode(&codec, &piece, values, both, bytes + 6);
  return 6 + tt_codec_bytes(&codec, &piece);
}

const struct fuzz_target fuzz_cores[] = {
    {"table", table_run, NULL, table_make, 8},
    {"codes", codes_run, NULL, codes_make, 0},
    {"view", view_run, NULL, view_make, 0},
    {"raft", raft_run, NULL, raft_make, 0},
    {"server", server_run, NULL, server_make, 0},
    {"takeover", takeover_run, NULL, takeover_make, 0},
    {"failover", failover_run, NULL, failover_make, 0},
    {"rounds", rounds_run, NULL, rounds_make, 0},
    {NULL, NULL, NULL, NULL, 0},
};
