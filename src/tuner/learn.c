/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/learn_private.h"

#include <string.h>

#define MILLION 1000000
#define FIRST_CALLS 60  /* whose time is taken before anything is tried */
#define ROOM 16         /* calls of a slot among which its visit is placed */
#define BURST 1500      /* thousandths of a call: what a trial may cost at once, */
#define RATE 5          /* and for each call: 6.5 calls of any 1,000. Estimates err */
#define DEAR_CALLS 2000 /* a slot of a visit that costs more than BURST, if there are several in a period */
#define EXCHANGE_CALLS 1500 /* a period is so many times as long as an exchange */
#define EXCHANGE_NS 10000   /* before one has been measured */
#define TELL_NS 200     /* cost of taking the time of a call, where ranks share a core */
#define PERIOD_LEAST 80 /* a visit of the longest kind has room in it */
#define PERIOD_MOST 32000
#define REST 2048       /* calls of a settled period, the first one; 64 groups of it are measured */
#define REST_MOST 32768
#define REST_NS 50000000 /* a settled period takes no less */
#define RESTED_GROUPS 64
#define SURE 4          /* standard errors; more if there are few visits */
#define PERIODS_MOST 128 /* with visits of one challenger: then it is late, */
#define LATE_VISITS 128 /* or after so many visits, if all that has taken so long */
#define LATE_NS 500000000
#define WAITS_MOST 2000000 /* calls, for one that is not ready */
#define UNREADY_CALLS 15 /* the caller is asked for the next one again behind so many */
#define LOOKS_MOST 3    /* too slow: out. One look may fall on an outlier or a slow phase */
#define LOOKS_NEAR 3    /* near enough: visited */
#define AGAIN_MOST 2

/* Parts of a million of the incumbent's time. */
#define BETTER 10000    /* worth a change */
#define TOLERANCE 20000 /* an arm that is not better by more than this goes out */
#define LEAST 10000     /* a visit is planned at this excess at least */
#define MARGIN 150000   /* half of the excess that a look may have missed */
#define POOR 500000     /* too slow to be visited */
#define FAR 800000      /* so slow that a longer look would be dear */
#define NEAR 200000     /* near enough for long visits */
#define LOOK_EXCESS 1500000 /* the first look is planned as if it were so slow */
#define EDGE 500000     /* at first */
#define MOVED 50000     /* times have changed, if it is settled */
#define MOVED_IN_RACE 200000
#define PPM_MOST 1000000000
#define FACT_MOST ((int64_t)1 << 46)  /* ns: 19 hours; of an exchange: */
#define EXCHANGE_MOST ((int64_t)1 << 40)
#define VISITS_MOST 65536

const struct tt_learn_stage_rule tt_learn_stages[] = {
    {0, 2, 1, 7}, {SKIP, 2, 1, 7}, {SKIP, TT_LEARN_GROUP, 1, 1}, {SKIP, TT_LEARN_GROUP, TT_LEARN_GROUPS, 0.25f}};

static int visit_calls(const struct tt_learn_race *race)
{
  return tt_learn_stages[race->stage].skip + tt_learn_stages[race->stage].group * tt_learn_stages[race->stage].groups;
}

/* Calls of the incumbent before a visit. */
static int lead_calls(const struct tt_learn_race *race)
{
  return SKIP + TT_LEARN_GROUP * tt_learn_stages[race->stage].groups;
}

/* ---- the order of calls: agreed ---- */

/* splitmix64 */
static uint64_t draw(uint64_t x)
{
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

/* Draws the place of the visit in the slot that begins now: in its middle half, so that visits and exchanges are a
 * quarter of a slot apart. */
static void slot_begin(struct tt_learn_agreed *agreed)
{
  struct tt_learn_race *race = &agreed->race;
  uint64_t room = (uint64_t)(race->slot - lead_calls(race) - visit_calls(race));
  uint64_t drawn = draw((uint64_t)agreed->periods << 32 | agreed->at) % (room / 2 + 1);
  race->begin = (uint16_t)((uint64_t)lead_calls(race) + room / 4 + drawn);
}

int tt_learn_is_visit(const struct tt_learn_agreed *agreed)
{
  const struct tt_learn_race *race = &agreed->race;
  if (agreed->state != TT_LEARN_RACE || agreed->at >= (uint32_t)race->slot * race->visits) return 0;
  int at = (int)(agreed->at % race->slot);
  return at >= race->begin && at < race->begin + visit_calls(race);
}

int tt_learn_arm(const struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  return tt_learn_is_visit(agreed) ? agreed->race.challenger : agreed->incumbent;
}

/* 1 if this call of a race is near a visit: the medians around it, and both changes of arm. */
static int is_near_visit(const struct tt_learn_agreed *agreed)
{
  const struct tt_learn_race *race = &agreed->race;
  int at = (int)(agreed->at % race->slot);
  if (agreed->since < SKIP) return 1;
  return agreed->at < (uint32_t)race->slot * race->visits && at >= race->begin - lead_calls(race) + SKIP &&
         at < race->begin + visit_calls(race);
}

int tt_learn_is_timed(const struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  if (agreed->narms == 1) return 0;
  if (agreed->state == TT_LEARN_SETTLED) return agreed->at % (agreed->calls / RESTED_GROUPS) < TT_LEARN_GROUP;
  return agreed->state == TT_LEARN_FIRST || is_near_visit(agreed);
}

int tt_learn_unready(const struct tt_learn *learn)
{
  int n = learn->local.ready;
  return learn->agreed.state == TT_LEARN_SETTLED || n >= learn->agreed.narms ? -1 : n;
}

void tt_learn_ready(struct tt_learn *learn)
{
  learn->local.ready++;
}

uint32_t tt_learn_quiet(const struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  if (agreed->narms == 1) return UINT32_MAX;
  if (tt_learn_is_timed(learn)) return 0;
  uint32_t left = agreed->calls - 1 - agreed->at, n;
  if (agreed->state == TT_LEARN_SETTLED) {
    uint32_t stride = agreed->calls / RESTED_GROUPS;
    n = stride - agreed->at % stride;
  } else { /* up to the calls before the visit, or to the last one of the slot */
    uint32_t slot = agreed->race.slot, at = agreed->at % slot;
    uint32_t timed = (uint32_t)(agreed->race.begin - lead_calls(&agreed->race) + SKIP);
    int has_visit = agreed->at < slot * agreed->race.visits && at < timed;
    n = has_visit ? timed - at : slot - 1 - at;
    if (tt_learn_unready(learn) >= 0 && n > UNREADY_CALLS) n = UNREADY_CALLS;
  }
  return n < left ? n : left;
}

void tt_learn_skip(struct tt_learn *learn, uint32_t calls)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  agreed->at += calls;
  agreed->since = (uint16_t)(calls < (uint32_t)(UINT16_MAX - agreed->since) ? agreed->since + calls : UINT16_MAX);
}

/* ---- around a call ---- */

int tt_learn_step(struct tt_learn *learn, uint64_t ns)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_local *local = &learn->local;
  if (agreed->narms == 1) return 0;
  int arm = tt_learn_arm(learn), visited = tt_learn_is_visit(agreed);
  if (ns && tt_learn_is_timed(learn)) tt_learn_sample(learn, (float)ns);
  if (agreed->state == TT_LEARN_RACE && !visited && agreed->since == SKIP - 1) tt_learn_edge_end(local);
  agreed->at++;
  if (agreed->since < UINT16_MAX) agreed->since++;
  if (agreed->state == TT_LEARN_RACE && agreed->at % agreed->race.slot == 0) slot_begin(agreed);
  if (tt_learn_arm(learn) != arm || agreed->at == agreed->calls) {
    if (visited) tt_learn_visit_end(learn);
    local->group = 0;
    local->ngroup = local->nmeans = 0;
    if (tt_learn_arm(learn) != arm) agreed->since = 0;
  }
  return agreed->at == agreed->calls;
}

void tt_learn_exchanged(struct tt_learn *learn, uint64_t ns)
{
  learn->local.exchange = (float)ns;
}

/* ---- decisions: agreed, by integers ---- */

static int32_t ppm(int64_t part_ns, int64_t whole_ns)
{
  if (whole_ns <= 0) return 0;
  int64_t times = part_ns / whole_ns, rest = part_ns % whole_ns;
  if (times >= 1000 || times <= -1000) return times > 0 ? PPM_MOST : -PPM_MOST;
  rest = whole_ns < INT64_MAX / MILLION ? rest * MILLION / whole_ns : rest / (whole_ns / MILLION);
  return (int32_t)(times * MILLION + rest);
}

/* Thousandths of the incumbent's time. */
static int64_t part_of_call(const struct tt_learn_agreed *agreed, int64_t ns)
{
  return agreed->reference_ns > 0 ? ns * 1000 / agreed->reference_ns : 0;
}

/* Thousandths of a call that a visit costs: the calls by another arm, those on both sides of each change, and the
 * clock. */
static int64_t visit_cost(const struct tt_learn_agreed *agreed, int64_t excess_ppm)
{
  const struct tt_learn_race *race = &agreed->race;
  int64_t timed = lead_calls(race) + visit_calls(race);
  if (excess_ppm < LEAST) excess_ppm = LEAST;
  return (visit_calls(race) * excess_ppm + 2 * SKIP * (int64_t)race->edge_ppm) / 1000 +
         part_of_call(agreed, timed * TELL_NS);
}

/* Calls until the next exchange, by what one takes. */
static uint32_t period_calls(const struct tt_learn_agreed *agreed)
{
  int64_t calls = part_of_call(agreed, agreed->exchange_ns) * EXCHANGE_CALLS / 1000;
  return (uint32_t)(calls < PERIOD_LEAST ? PERIOD_LEAST : calls < PERIOD_MOST ? calls : PERIOD_MOST);
}

static void period_begin(struct tt_learn *learn, uint32_t calls)
{
  learn->agreed.at = 0;
  learn->agreed.calls = calls;
  learn->agreed.periods++;
  learn->local.steady = 0;
  learn->local.nsteady = 0;
}

/* Plans a period of a race: as many visits as the budget and the calls have room for. */
static void visits_plan(struct tt_learn *learn)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_race *race = &agreed->race;
  uint32_t calls = period_calls(agreed);
  int64_t at_once = agreed->credit, spread = RATE * (int64_t)calls - BURST + at_once;
  int64_t cost = visit_cost(agreed, race->upper_ppm), n = (at_once > spread ? at_once : spread) / cost;
  int64_t most = race->stage <= LONG_LOOK ? 1 : calls / (uint32_t)(lead_calls(race) + visit_calls(race) + ROOM);
  int64_t first = race->stage == COARSE ? 1 : FEWEST, soon = race->n > first ? race->n : first;
  int64_t dear = cost <= BURST ? UINT8_MAX : calls > DEAR_CALLS ? calls / DEAR_CALLS : 1;
  if (most > soon) most = soon;
  if (most > dear) most = dear;
  if (n < 1) n = at_once == BURST; /* there will never be more */
  if (race->challenger >= agreed->ready) {
    n = 0;
    race->waited += calls;
  } else if (race->tried_ns < LATE_NS) race->tried_ns += calls * agreed->reference_ns; /* more is not wanted */
  race->visits = (uint8_t)(n < most ? n : most);
  race->slot = (uint16_t)(calls / (race->visits ? race->visits : 1));
  race->n = (uint16_t)(race->n + race->visits);
  race->periods = (uint16_t)(race->periods + (race->visits > 0));
  period_begin(learn, calls);
  slot_begin(agreed);
}

static void stage_begin(struct tt_learn *learn, enum tt_learn_stage stage)
{
  learn->agreed.race.stage = (uint8_t)stage;
  learn->agreed.race.n = 0;
  tt_learn_samples_forget(&learn->local);
}

static void rest_begin(struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  int64_t least = agreed->reference_ns > 0 ? REST_NS / agreed->reference_ns : 1;
  period_begin(learn, agreed->rest * (uint32_t)(1 + least / REST));
}

static void settle(struct tt_learn *learn)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  int is_same = agreed->before == agreed->incumbent;
  if (!is_same) agreed->rest = REST;
  else if (agreed->rest < REST_MOST) agreed->rest *= 2;
  agreed->state = TT_LEARN_SETTLED;
  agreed->is_steady = 0;
  agreed->moved = agreed->again = 0;
  agreed->credit = BURST;
  rest_begin(learn);
}

/* The nearest arm that is live, of those that are ready if there is one; -1: none. */
static int challenger_find(const struct tt_learn_agreed *agreed)
{
  int next = -1;
  for (int a = 0; a < agreed->narms; a++) {
    if (a == agreed->incumbent || !(agreed->live >> a & 1)) continue;
    if (next >= 0 && (a >= agreed->ready || agreed->known_ppm[a] >= agreed->known_ppm[next])) continue;
    next = a;
  }
  return next;
}

/* The next challenger, in visits as short as what is known of it demands; without one it is settled. */
static enum tt_learned challenger_begin(struct tt_learn *learn)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  int next = challenger_find(agreed);
  if (next < 0) {
    settle(learn);
    return TT_LEARNED_SETTLED;
  }
  agreed->race = (struct tt_learn_race){.challenger = (uint8_t)next, .upper_ppm = LOOK_EXCESS};
  if (agreed->known >> next & 1) {
    agreed->race.upper_ppm = agreed->known_ppm[next] + 2 * MARGIN;
    agreed->race.edge_ppm = EDGE;
  }
  stage_begin(learn, agreed->known >> next & 1 ? COARSE : LOOK);
  visits_plan(learn);
  return TT_LEARNED_NOTHING;
}

/* Another arm is the incumbent, with this excess over the one before. Arms that are known to be far slower go out, or
 * are looked at before they are visited. */
static void incumbent_set(struct tt_learn *learn, int arm, int64_t excess_ppm)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  int64_t now = MILLION + excess_ppm > 1 ? MILLION + excess_ppm : 1;
  agreed->incumbent = (uint8_t)arm;
  for (int a = 0; a < agreed->narms; a++) {
    uint8_t bit = (uint8_t)(1u << a);
    agreed->known_ppm[a] = a == arm ? 0 : ppm(MILLION + (int64_t)agreed->known_ppm[a] - now, now);
    if (!(agreed->known & bit) || agreed->known_ppm[a] <= POOR) continue; /* slow phases mislead */
    agreed->known &= (uint8_t)~bit;
    if (agreed->known_ppm[a] > FAR + POOR) agreed->live &= (uint8_t)~bit;
  }
  agreed->since = 0;
  learn->local.usual = learn->local.last = 0;
}

/* How long a call takes is known. */
static enum tt_learned first_agree(struct tt_learn *learn, const int64_t *facts)
{
  learn->agreed.reference_ns = -facts[STEADY];
  learn->agreed.ready = (uint8_t)-facts[READY];
  learn->agreed.state = TT_LEARN_RACE;
  return challenger_begin(learn);
}

/* 1 if the incumbent's time is not the reference, twice running. */
static int has_moved(struct tt_learn_agreed *agreed, int64_t steady_ns)
{
  if (!steady_ns) return 0;
  if (!agreed->reference_ns) agreed->reference_ns = steady_ns;
  int32_t moved = ppm(steady_ns - agreed->reference_ns, agreed->reference_ns);
  int32_t most = agreed->is_steady ? MOVED : MOVED_IN_RACE;
  if (agreed->state == TT_LEARN_RACE && agreed->race.visits < FEWEST) return 0; /* few were timed */
  agreed->moved = (uint8_t)(moved > most || moved < -most ? agreed->moved + 1 : 0);
  return agreed->moved == 2;
}

/* All arms are tried again. */
static enum tt_learned race_again(struct tt_learn *learn, int64_t steady_ns)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  if (agreed->state == TT_LEARN_SETTLED) agreed->before = agreed->incumbent;
  agreed->state = TT_LEARN_RACE;
  agreed->live = (uint8_t)((1u << agreed->narms) - 1);
  agreed->known = agreed->crowned = agreed->moved = agreed->is_steady = 0;
  agreed->reference_ns = steady_ns;
  challenger_begin(learn);
  return TT_LEARNED_DRIFT;
}

static enum tt_learned challenger_out(struct tt_learn *learn)
{
  learn->agreed.live &= (uint8_t)~(1u << learn->agreed.race.challenger);
  return challenger_begin(learn);
}

/* A rank that always comes last has short times, beside which a gain may look like more than all. */
static enum tt_learned challenger_wins(struct tt_learn *learn, int32_t excess_ppm)
{
  if (excess_ppm < -900000) excess_ppm = -900000;
  struct tt_learn_agreed *agreed = &learn->agreed;
  if (agreed->crowned >> agreed->incumbent & 1) agreed->live &= (uint8_t)~(1u << agreed->incumbent);
  agreed->known |= (uint8_t)(1u << agreed->incumbent);
  agreed->crowned |= (uint8_t)(1u << agreed->race.challenger);
  int64_t whole = agreed->reference_ns / MILLION, rest = agreed->reference_ns % MILLION;
  agreed->reference_ns += whole * excess_ppm + rest * excess_ppm / MILLION;
  incumbent_set(learn, agreed->race.challenger, excess_ppm);
  enum tt_learned learned = challenger_begin(learn);
  return learned == TT_LEARNED_NOTHING ? TT_LEARNED_ANOTHER : learned;
}

static enum tt_learned challenger_stays(struct tt_learn *learn)
{
  const struct tt_learn_race *race = &learn->agreed.race;
  if (race->periods >= PERIODS_MOST || race->waited >= WAITS_MOST) return challenger_out(learn);
  visits_plan(learn);
  return TT_LEARNED_NOTHING;
}

/* 1 if little must do to decide, so that it ends: also where calls take ms. */
static int is_late(const struct tt_learn_race *race)
{
  return race->periods >= PERIODS_MOST || (race->n >= LATE_VISITS && race->tried_ns >= LATE_NS);
}

/* After a look: LOOKS_NEAR times near enough, and it is visited; LOOKS_MOST times far too slow, and it is out. */
static enum tt_learned look_agree(struct tt_learn *learn, int32_t excess_ppm)
{
  struct tt_learn_race *race = &learn->agreed.race;
  int is_first = !race->looks && !race->nears;
  if (excess_ppm + 2 * MARGIN > race->upper_ppm || is_first) race->upper_ppm = excess_ppm + 2 * MARGIN;
  if (excess_ppm > POOR) {
    stage_begin(learn, race->upper_ppm > FAR + 2 * MARGIN ? LOOK : LONG_LOOK);
    return ++race->looks < LOOKS_MOST ? challenger_stays(learn) : challenger_out(learn);
  }
  if (++race->nears < LOOKS_NEAR + race->looks) {
    stage_begin(learn, LONG_LOOK);
    return challenger_stays(learn);
  }
  learn->agreed.known |= (uint8_t)(1u << race->challenger);
  stage_begin(learn, COARSE);
  return challenger_stays(learn);
}

/* n visits have shown this excess of the challenger. */
static enum tt_learned race_decide(struct tt_learn *learn, int64_t n, int32_t excess_ppm, int64_t error_ppm)
{
  struct tt_learn_race *race = &learn->agreed.race;
  int is_over = is_late(race);
  int64_t sure = SURE * error_ppm * (n + FEWEST) / n;
  if (race->stage <= LONG_LOOK) return look_agree(learn, excess_ppm);
  if (n < FEWEST) {
    if (race->upper_ppm < excess_ppm + 2 * MARGIN) race->upper_ppm = excess_ppm + 2 * MARGIN;
    return challenger_stays(learn);
  }
  if (excess_ppm + (is_over ? 0 : sure) < -BETTER) return challenger_wins(learn, excess_ppm);
  if (is_over || excess_ppm - sure > -TOLERANCE) return challenger_out(learn);
  int64_t upper_ppm = (excess_ppm > 0 ? excess_ppm : 0) + sure / 2;
  race->upper_ppm = upper_ppm < PPM_MOST ? (int32_t)upper_ppm : PPM_MOST;
  if (race->stage == COARSE && race->upper_ppm < NEAR) stage_begin(learn, FINE);
  return challenger_stays(learn);
}

/* The time of an exchange is followed slowly. */
static void exchange_take(struct tt_learn_agreed *agreed, int64_t ns)
{
  int64_t before = agreed->exchange_ns;
  if (!ns) return;
  agreed->exchange_ns = ns < before * 3 / 4 ? before * 3 / 4 : ns > before * 5 / 4 ? before * 5 / 4 : ns;
}

/* Books what the period of visits has cost. */
static void credit_take(struct tt_learn_agreed *agreed, int64_t excess_ppm)
{
  int64_t spent = agreed->race.visits * visit_cost(agreed, excess_ppm) + part_of_call(agreed, agreed->exchange_ns);
  int64_t credit = agreed->credit + RATE * (int64_t)agreed->calls - spent;
  agreed->credit = (int32_t)(credit > BURST ? BURST : credit < -100 * BURST ? -100 * BURST : credit);
}

/* The excess of visits that are too few to tell. */
static int64_t excess_supposed(const struct tt_learn_race *race, int64_t n, int64_t excess_ppm)
{
  int64_t seen = race->looks || race->nears ? race->upper_ppm - 2 * MARGIN : LOOK_EXCESS / 2;
  if (!n) return race->upper_ppm;
  return (excess_ppm > seen ? excess_ppm : seen) + MARGIN;
}

static enum tt_learned race_agree(struct tt_learn *learn, const int64_t *facts)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_race *race = &agreed->race;
  int64_t n = -facts[VISITS], least = -facts[LEAST_INCUMBENT], edge = facts[EDGES] - facts[INCUMBENT];
  agreed->ready = (uint8_t)-facts[READY];
  int32_t excess = ppm(facts[ARM] - facts[INCUMBENT], least), error = ppm(facts[ERROR], least);
  if (n && facts[EDGES]) race->edge_ppm = edge > 0 ? ppm(edge, least) : 0;
  credit_take(agreed, n < FEWEST ? excess_supposed(race, n, excess) : excess + 2 * (int64_t)error);
  if (has_moved(agreed, -facts[STEADY]) && agreed->again++ < AGAIN_MOST)
    return race_again(learn, -facts[STEADY]);
  if (!n) return challenger_stays(learn);
  agreed->known_ppm[race->challenger] = excess;
  return race_decide(learn, n, excess, error);
}

static enum tt_learned settled_agree(struct tt_learn *learn, const int64_t *facts)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  int64_t steady_ns = -facts[STEADY];
  if (has_moved(agreed, steady_ns)) return race_again(learn, steady_ns);
  if (!agreed->is_steady && !agreed->moved && steady_ns) {
    agreed->reference_ns = steady_ns;
    agreed->is_steady = 1;
  }
  rest_begin(learn);
  return TT_LEARNED_NOTHING;
}

static int64_t bounded(int64_t fact, int64_t most)
{
  return fact > most ? most : fact < -most ? -most : fact;
}

enum tt_learned tt_learn_agree(struct tt_learn *learn, const int64_t told[TT_LEARN_FACTS])
{
  int64_t facts[TT_LEARN_FACTS]; /* bounded, so that nothing overflows, whatever another rank has sent */
  for (int k = 0; k < TT_LEARN_FACTS; k++) facts[k] = bounded(told[k], FACT_MOST);
  facts[VISITS] = bounded(told[VISITS], VISITS_MOST);
  facts[EXCHANGE] = bounded(told[EXCHANGE], EXCHANGE_MOST);
  exchange_take(&learn->agreed, -facts[EXCHANGE]);
  if (learn->agreed.state == TT_LEARN_FIRST) return first_agree(learn, facts);
  return learn->agreed.state == TT_LEARN_RACE ? race_agree(learn, facts) : settled_agree(learn, facts);
}

void tt_learn_init(struct tt_learn *learn, int narms)
{
  memset(learn, 0, sizeof *learn);
  learn->agreed.narms = (uint8_t)narms;
  learn->agreed.live = (uint8_t)((1u << narms) - 1);
  learn->agreed.before = TT_LEARN_ARMS;
  learn->agreed.rest = REST;
  learn->agreed.exchange_ns = EXCHANGE_NS;
  learn->agreed.credit = BURST;
  learn->agreed.calls = FIRST_CALLS;
}

void tt_learn_resume(struct tt_learn *learn, int narms, int64_t ns)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  tt_learn_init(learn, narms);
  agreed->state = TT_LEARN_SETTLED;
  agreed->before = 0;
  agreed->reference_ns = ns; /* it is steady once it has been measured here */
  rest_begin(learn);
}
