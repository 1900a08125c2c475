/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/learn.h"

#include <math.h>
#include <string.h>

#define MILLION 1000000
#define FIRST_CALLS 60  /* whose time is taken before anything is tried */
#define PERIOD 500      /* calls between exchanges in a race: 1,000 calls touch three periods, and have two exchanges */
#define SKIP 2          /* calls behind a change of arm that do not count */
#define LEAD (SKIP + TT_LEARN_GROUP) /* calls of the incumbent before a visit */
#define ROOM 20         /* calls of a slot among which its visit is placed */
#define BUDGET 4500     /* thousandths of a call: visits of three periods. With 2 exchanges 6.5 of 10: estimates err */
#define REST 2048       /* calls of a settled period, the first one; 64 groups of it are measured */
#define REST_MOST 32768
#define RESTED_GROUPS 64
#define SHORT_NS 2000   /* of shorter calls few are timed */
#define STRETCH_NS 6000 /* a period of these takes as long as one of calls that take so long */
#define STRETCH_MOST 64
#define REST_STRETCH 16 /* settled periods of short calls are so many times longer still */
#define SURE 4          /* standard errors; more if there are few visits */
#define FEWEST 4        /* visits that decide, also whether times have changed */
#define PRIOR 0.06      /* of the time: deviation of a sample, as FEWEST visits would have told it */
#define PERIODS_MOST 128 /* of a challenger */
#define WAITS_MOST 4000 /* for one that is not ready */
#define UNREADY_CALLS 15 /* the caller is asked for the next one again behind so many */
#define LOOKS_MOST 4    /* too slow: out. One look may fall on an outlier or a slow phase */
#define LOOKS_NEAR 3    /* near enough: visited */
#define USUAL_MOST 4
#define AGAIN_MOST 2

/* Parts of a million of the incumbent's time. */
#define BETTER 10000    /* worth a change */
#define TOLERANCE 20000 /* an arm that is not better by more than this goes out */
#define LEAST 10000     /* a visit is planned at this excess at least */
#define MARGIN 150000   /* half of the excess that a look may have missed */
#define POOR 800000     /* too slow to be visited */
#define NEAR 200000     /* near enough for long visits */
#define LOOK_EXCESS 4500000 /* a look is planned as if it were so slow */
#define EDGE 500000     /* at first */
#define MOVED 50000     /* times have changed, if it is settled */
#define MOVED_IN_RACE 200000

enum facts {
  ARM,
  INCUMBENT,
  LEAST_INCUMBENT, /* negative, like all whose minimum is wanted */
  ERROR,
  VISITS,
  STEADY,
  EDGES,
  READY
};

/* Visits: calls that do not count, then those that do, in groups with a median each. Differences to the incumbent are
 * cut off at so many times its time, or at USUAL_MOST usual ones, so that no few of them outweigh all others. */
enum stage { LOOK, COARSE, FINE };
static const struct {
  uint8_t skip, measured, group;
  float cut;
} stages[] = {{0, 1, 1, 7}, {SKIP, 3, 3, 1}, {SKIP, 3 * TT_LEARN_GROUP, TT_LEARN_GROUP, 0.25f}};

static int visit_calls(const struct tt_learn_race *race)
{
  return stages[race->stage].skip + stages[race->stage].measured;
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

/* Draws the place of the visit in the slot that begins now. */
static void slot_begin(struct tt_learn_agreed *agreed)
{
  struct tt_learn_race *race = &agreed->race;
  uint64_t room = (uint64_t)(race->slot - LEAD - visit_calls(race) + 1);
  race->begin = (uint16_t)(LEAD + draw((uint64_t)agreed->periods << 32 | agreed->at) % room);
}

static int is_visit(const struct tt_learn_agreed *agreed)
{
  const struct tt_learn_race *race = &agreed->race;
  if (agreed->state != TT_LEARN_RACE || agreed->at >= (uint32_t)race->slot * race->visits) return 0;
  int at = (int)(agreed->at % race->slot);
  return at >= race->begin && at < race->begin + visit_calls(race);
}

int tt_learn_arm(const struct tt_learn *learn)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  return is_visit(agreed) ? agreed->race.challenger : agreed->incumbent;
}

/* 1 if this call of a race is near a visit: the medians around it, and both changes of arm. */
static int is_near_visit(const struct tt_learn_agreed *agreed)
{
  const struct tt_learn_race *race = &agreed->race;
  int at = (int)(agreed->at % race->slot);
  if (agreed->since < SKIP) return 1;
  return agreed->at < (uint32_t)race->slot * race->visits && at >= race->begin - LEAD &&
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
    uint32_t slot = agreed->race.slot, at = agreed->at % slot, timed = (uint32_t)(agreed->race.begin - LEAD);
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

/* ---- measurements: local ---- */

static float median(const float *values, int n)
{
  float sorted[TT_LEARN_GROUP] = {0};
  for (int k = 0; k < n; k++) {
    int at = k;
    for (; at > 0 && sorted[at - 1] > values[k]; at--) sorted[at] = sorted[at - 1];
    sorted[at] = values[k];
  }
  return (sorted[(n - 1) / 2] + sorted[n / 2]) / 2;
}

static float cut(float ns, float usual, float times)
{
  return fminf(fmaxf(ns, usual / times), usual * times);
}

/* A median of the incumbent, which changes the usual one by an eighth at most. */
static void incumbent_take(struct tt_learn_local *local, float ns)
{
  float usual = local->usual > 0 ? local->usual : ns;
  local->last = cut(ns, usual, 2);
  local->usual = cut(ns, usual, 1.125f);
  local->steady += cut(ns, usual, 1.5f);
  local->nsteady++;
}

/* The incumbent's time without waits, as far as is known. */
static float incumbent_ns(const struct tt_learn *learn)
{
  int64_t reference = learn->agreed.reference_ns;
  return reference ? (float)reference : learn->local.last;
}

/* Longer differences to the incumbent are cut off, if they are not usual. */
static float cut_ns(const struct tt_learn *learn)
{
  return stages[learn->agreed.race.stage].cut * incumbent_ns(learn);
}

static void group_take(struct tt_learn *learn, float ns)
{
  struct tt_learn_local *local = &learn->local;
  if (is_visit(&learn->agreed)) {
    float most = fmaxf(cut_ns(learn), USUAL_MOST * local->spread);
    local->visit += fminf(fmaxf(ns - local->last, -most), most);
    local->nvisit++;
  } else incumbent_take(local, ns);
}

/* Half of the differences are more than `spread`, as it grows and shrinks alike. */
static void visit_end(struct tt_learn_local *local, float first)
{
  if (local->nvisit && local->last > 0) {
    float difference = local->visit / local->nvisit, far = fabsf(difference);
    if (local->spread > 0) local->spread *= far > local->spread ? 1.125f : 1 / 1.125f;
    else local->spread = fminf(far, first) + 1;
    local->arm += local->last + difference;
    local->incumbent += local->last;
    local->square += difference * difference;
    local->n++;
  }
  local->visit = 0;
  local->nvisit = 0;
}

static void edge_end(struct tt_learn_local *local)
{
  if (local->nedge >= 3) {
    local->edges += cut(median(local->edge, local->nedge), local->usual, 2);
    local->nedges++;
  }
  local->nedge = 0;
}

static void sample_take(struct tt_learn *learn, float ns)
{
  const struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_local *local = &learn->local;
  int visits = is_visit(agreed), stage = agreed->race.stage;
  if (agreed->state == TT_LEARN_RACE && agreed->since < (visits ? stages[stage].skip : SKIP)) {
    if (local->nedge < 4) local->edge[local->nedge++] = ns;
    return;
  }
  local->group[local->ngroup++] = ns;
  if (local->ngroup < (visits ? stages[stage].group : TT_LEARN_GROUP)) return;
  group_take(learn, median(local->group, local->ngroup));
  local->ngroup = 0;
}

int tt_learn_step(struct tt_learn *learn, uint64_t ns)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_local *local = &learn->local;
  if (agreed->narms == 1) return 0;
  int arm = tt_learn_arm(learn), visited = is_visit(agreed);
  if (ns && tt_learn_is_timed(learn)) sample_take(learn, (float)ns);
  if (agreed->state == TT_LEARN_RACE && !visited && agreed->since == SKIP - 1) edge_end(local);
  agreed->at++;
  if (agreed->since < UINT16_MAX) agreed->since++;
  if (agreed->state == TT_LEARN_RACE && agreed->at % agreed->race.slot == 0) slot_begin(agreed);
  if (tt_learn_arm(learn) != arm || agreed->at == agreed->calls) {
    if (visited) visit_end(local, cut_ns(learn) / USUAL_MOST);
    local->ngroup = 0;
    if (tt_learn_arm(learn) != arm) agreed->since = 0;
  }
  return agreed->at == agreed->calls;
}

/* ---- facts ---- */

static int64_t mean_ns(float sum, uint32_t n)
{
  return n ? (int64_t)(sum / (float)n) : 0;
}

/* The standard error of the mean difference. Few samples may be alike by chance. */
static int64_t error_ns(const struct tt_learn *learn)
{
  const struct tt_learn_local *local = &learn->local;
  if (!local->n) return 0;
  double n = local->n, usual = incumbent_ns(learn), mean = (local->arm - local->incumbent) / n;
  double variance = fmax(local->square / n - mean * mean, 0) + FEWEST * PRIOR * PRIOR * usual * usual / n;
  return (int64_t)sqrt(variance / n);
}

void tt_learn_tell(const struct tt_learn *learn, int64_t facts[TT_LEARN_FACTS])
{
  const struct tt_learn_local *local = &learn->local;
  memset(facts, 0, TT_LEARN_FACTS * sizeof *facts);
  facts[READY] = -(int64_t)local->ready;
  facts[ARM] = mean_ns(local->arm, local->n);
  facts[INCUMBENT] = mean_ns(local->incumbent, local->n);
  facts[LEAST_INCUMBENT] = -facts[INCUMBENT];
  facts[ERROR] = error_ns(learn);
  facts[VISITS] = -(int64_t)local->n;
  facts[STEADY] = -mean_ns(local->steady, local->nsteady);
  facts[EDGES] = mean_ns(local->edges, local->nedges);
}

/* ---- decisions: agreed, by integers ---- */

static int32_t ppm(int64_t part_ns, int64_t whole_ns)
{
  int64_t most = 1000 * (int64_t)MILLION;
  if (whole_ns <= 0) return 0;
  if (part_ns > INT64_MAX / MILLION / 2 || part_ns < -INT64_MAX / MILLION / 2) part_ns /= whole_ns;
  else part_ns = part_ns * MILLION / whole_ns;
  return (int32_t)(part_ns > most ? most : part_ns < -most ? -most : part_ns);
}

/* Thousandths of a call that a visit costs; calls on both sides of each change may cost more. */
static int64_t visit_cost(const struct tt_learn_race *race, int64_t excess_ppm)
{
  if (excess_ppm < LEAST) excess_ppm = LEAST;
  return (visit_calls(race) * excess_ppm + 2 * SKIP * (int64_t)race->edge_ppm) / 1000;
}

/* The excess with which visits are planned. */
static int64_t planned(const struct tt_learn_race *race)
{
  return race->stage == LOOK ? LOOK_EXCESS : race->upper_ppm;
}

/* How many times as long periods are, by what a call takes. */
static void stretch_set(struct tt_learn_agreed *agreed, int64_t ns)
{
  int64_t stretch = ns > 0 ? STRETCH_NS / ns : STRETCH_MOST;
  agreed->stretch = (uint16_t)(ns >= SHORT_NS ? 1 : stretch < STRETCH_MOST ? stretch : STRETCH_MOST);
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
  int64_t left = BUDGET - agreed->spent[0] - agreed->spent[1];
  int64_t n = left / visit_cost(race, planned(race));
  int64_t most = race->stage == LOOK ? 1 : PERIOD / (LEAD + visit_calls(race) + ROOM);
  int64_t first = race->stage == COARSE ? 1 : FEWEST, soon = race->n > first ? race->n : first;
  if (most > soon) most = soon;
  if (n < 1) n = left == BUDGET; /* there will never be more */
  if (race->challenger >= agreed->ready) n = 0;
  race->visits = (uint8_t)(n < most ? n : most);
  race->slot = (uint16_t)(PERIOD * agreed->stretch / (race->visits ? race->visits : 1));
  race->n = (uint16_t)(race->n + race->visits);
  if (race->challenger < agreed->ready) race->periods++;
  else race->waits++;
  period_begin(learn, PERIOD * (uint32_t)agreed->stretch);
  slot_begin(agreed);
}

static void samples_forget(struct tt_learn_local *local)
{
  local->arm = local->incumbent = local->square = local->edges = 0;
  local->spread = 0;
  local->n = local->nedges = 0;
  local->nedge = 0;
}

static void stage_begin(struct tt_learn *learn, enum stage stage)
{
  learn->agreed.race.stage = (uint8_t)stage;
  learn->agreed.race.n = 0;
  samples_forget(&learn->local);
}

static void rest_begin(struct tt_learn *learn)
{
  uint32_t stretch = learn->agreed.stretch;
  period_begin(learn, learn->agreed.rest * (stretch > 1 ? REST_STRETCH * stretch : 1));
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
  agreed->spent[0] = agreed->spent[1] = 0;
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
  agreed->race = (struct tt_learn_race){.challenger = (uint8_t)next};
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
    if (!(agreed->known & bit) || agreed->known_ppm[a] <= POOR / 2) continue; /* slow phases mislead */
    agreed->known &= (uint8_t)~bit;
    if (agreed->known_ppm[a] > 2 * POOR) agreed->live &= (uint8_t)~bit;
  }
  agreed->since = 0;
  learn->local.usual = learn->local.last = 0;
}

/* How long a call takes is known. */
static enum tt_learned first_agree(struct tt_learn *learn, const int64_t *facts)
{
  if (facts[STEADY]) stretch_set(&learn->agreed, -facts[STEADY]);
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
static enum tt_learned race_again(struct tt_learn *learn)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  if (agreed->state == TT_LEARN_SETTLED) agreed->before = agreed->incumbent;
  agreed->state = TT_LEARN_RACE;
  agreed->live = (uint8_t)((1u << agreed->narms) - 1);
  agreed->known = agreed->crowned = agreed->moved = agreed->is_steady = 0;
  agreed->reference_ns = 0;
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
  agreed->reference_ns += agreed->reference_ns * excess_ppm / MILLION;
  incumbent_set(learn, agreed->race.challenger, excess_ppm);
  enum tt_learned learned = challenger_begin(learn);
  return learned == TT_LEARNED_NOTHING ? TT_LEARNED_ANOTHER : learned;
}

static enum tt_learned challenger_stays(struct tt_learn *learn)
{
  const struct tt_learn_race *race = &learn->agreed.race;
  if (race->periods >= PERIODS_MOST || race->waits >= WAITS_MOST) return challenger_out(learn);
  visits_plan(learn);
  return TT_LEARNED_NOTHING;
}

/* After a look: LOOKS_NEAR times near enough, and it is visited; LOOKS_MOST times far too slow, and it is out. */
static enum tt_learned look_agree(struct tt_learn *learn, int32_t excess_ppm)
{
  struct tt_learn_race *race = &learn->agreed.race;
  if (excess_ppm > POOR) {
    stage_begin(learn, LOOK);
    return ++race->looks < LOOKS_MOST ? challenger_stays(learn) : challenger_out(learn);
  }
  if (excess_ppm + 2 * MARGIN > race->upper_ppm || !race->nears) race->upper_ppm = excess_ppm + 2 * MARGIN;
  if (++race->nears < LOOKS_NEAR) {
    stage_begin(learn, LOOK);
    return challenger_stays(learn);
  }
  learn->agreed.known |= (uint8_t)(1u << race->challenger);
  race->edge_ppm = EDGE;
  stage_begin(learn, COARSE);
  return challenger_stays(learn);
}

/* n visits have shown this excess of the challenger. */
static enum tt_learned race_decide(struct tt_learn *learn, int64_t n, int32_t excess_ppm, int64_t error_ppm)
{
  struct tt_learn_race *race = &learn->agreed.race;
  int is_late = race->periods >= PERIODS_MOST;
  int64_t sure = SURE * error_ppm * (n + FEWEST) / n;
  if (race->stage == LOOK) return look_agree(learn, excess_ppm);
  if (n < FEWEST) {
    if (race->upper_ppm < excess_ppm + 2 * MARGIN) race->upper_ppm = excess_ppm + 2 * MARGIN;
    return challenger_stays(learn);
  }
  if (excess_ppm + (is_late ? sure / 2 : sure) < -BETTER) return challenger_wins(learn, excess_ppm);
  if (is_late || excess_ppm - sure > -TOLERANCE) return challenger_out(learn);
  race->upper_ppm = (int32_t)((excess_ppm > 0 ? excess_ppm : 0) + sure / 2);
  if (race->stage == COARSE && race->upper_ppm < NEAR) stage_begin(learn, FINE);
  return challenger_stays(learn);
}

static enum tt_learned race_agree(struct tt_learn *learn, const int64_t *facts)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  struct tt_learn_race *race = &agreed->race;
  int64_t n = -facts[VISITS], least = -facts[LEAST_INCUMBENT], edge = facts[EDGES] - facts[INCUMBENT];
  agreed->ready = (uint8_t)-facts[READY];
  int32_t excess = ppm(facts[ARM] - facts[INCUMBENT], least), error = ppm(facts[ERROR], least);
  if (n && facts[EDGES]) race->edge_ppm = edge > 0 ? ppm(edge, least) : 0;
  agreed->spent[1] = agreed->spent[0];
  int64_t spent = visit_cost(race, n < FEWEST ? planned(race) : excess + 2 * (int64_t)error);
  agreed->spent[0] = (int32_t)(race->visits * spent);
  if (has_moved(agreed, -facts[STEADY]) && agreed->again++ < AGAIN_MOST) return race_again(learn);
  if (!n) return challenger_stays(learn);
  agreed->known_ppm[race->challenger] = excess;
  return race_decide(learn, n, excess, error);
}

static enum tt_learned settled_agree(struct tt_learn *learn, const int64_t *facts)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  int64_t steady_ns = -facts[STEADY];
  if (has_moved(agreed, steady_ns)) return race_again(learn);
  if (!agreed->is_steady && !agreed->moved && steady_ns) {
    agreed->reference_ns = steady_ns;
    agreed->is_steady = 1;
  }
  rest_begin(learn);
  return TT_LEARNED_NOTHING;
}

enum tt_learned tt_learn_agree(struct tt_learn *learn, const int64_t facts[TT_LEARN_FACTS])
{
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
  learn->agreed.stretch = 1;
  learn->agreed.calls = FIRST_CALLS;
}

void tt_learn_resume(struct tt_learn *learn, int narms, int64_t ns)
{
  struct tt_learn_agreed *agreed = &learn->agreed;
  tt_learn_init(learn, narms);
  if (ns > 0) stretch_set(agreed, ns);
  agreed->state = TT_LEARN_SETTLED;
  agreed->before = 0;
  agreed->reference_ns = ns; /* it is steady once it has been measured here */
  rest_begin(learn);
}
