/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/team_private.h"

struct tt_team tt_team_of(const struct tt_shape *shape, int32_t first, int32_t size)
{
  return (struct tt_team){.size = size, .first = first, .each = 1, .id = shape->rank - first};
}

struct tt_team tt_team_fold(const struct tt_shape *shape, int32_t size)
{
  struct tt_team team = {.size = size, .each = shape->nranks / size, .more = shape->nranks % size};
  int32_t behind = shape->rank - team.more * (team.each + 1); /* the larger groups */
  team.id = behind < 0 ? shape->rank / (team.each + 1) : team.more + behind / team.each;
  team.aside = shape->rank - tt_team_rank(&team, team.id);
  return team;
}

int32_t tt_team_rank(const struct tt_team *team, int32_t id)
{
  return team->first + id * team->each + (id < team->more ? id : team->more);
}

int32_t tt_team_extras(const struct tt_team *team, int32_t id)
{
  return team->each - 1 + (id < team->more);
}

static struct tt_blocks whole(const struct tt_schedule *schedule)
{
  return (struct tt_blocks){0, schedule->shape.nblocks};
}

static void combine(struct tt_schedule *schedule, const struct tt_operand *sources, int32_t n, struct tt_operand dst)
{
  struct tt_step step = {.nblocks = schedule->shape.nblocks, .nsrc = (uint16_t)n, .dst = dst};
  tt_add(schedule, &step, sources, NULL);
}

static void spread(struct tt_schedule *schedule, struct tt_operand from, const int32_t *peers, int32_t n)
{
  struct tt_step step = {.nblocks = schedule->shape.nblocks, .nsrc = 1, .nto = (uint16_t)n};
  if (n) tt_add(schedule, &step, &from, peers);
}

/* ---- fold -------------------------------------------------------------------------- */

struct tt_operand tt_fold_in(struct tt_schedule *schedule, const struct tt_team *team, struct tt_operand dst)
{
  int32_t extras = tt_team_extras(team, team->id);
  struct tt_operand value = tt_in(0);
  for (int32_t done = 0; done < extras;) {
    struct tt_operand sources[TT_MAX_SOURCES] = {value};
    int32_t n = 1;
    while (n < TT_MAX_SOURCES && done < extras) sources[n++] = tt_message(schedule->shape.rank + ++done);
    combine(schedule, sources, n, dst);
    value = dst;
  }
  return value;
}

void tt_fold_out(struct tt_schedule *schedule, const struct tt_team *team)
{
  int32_t extras = tt_team_extras(team, team->id);
  for (int32_t k = 1; k <= extras; k++) tt_send(schedule, whole(schedule), tt_out(0), schedule->shape.rank + k);
}

void tt_fold_extra(struct tt_schedule *schedule, const struct tt_team *team)
{
  int32_t member = tt_team_rank(team, team->id);
  tt_send(schedule, whole(schedule), tt_in(0), member);
  tt_recv(schedule, whole(schedule), member, tt_out(0));
}

/* ---- whole vectors ------------------------------------------------------------------ */

/* The sources of one step are limited, so a larger round goes on from its partial sum in `to`. */
void tt_team_multiply(struct tt_schedule *schedule, const struct tt_team *team, int32_t stride, int32_t factor,
                      struct tt_operand from, struct tt_operand to)
{
  int32_t peers[TT_MAX_SOURCES], npeers = 0, nsources = 0;
  struct tt_operand sources[TT_MAX_SOURCES];
  int32_t lowest = team->id - team->id / stride % factor * stride;
  for (int32_t k = 0; k < factor; k++) {
    int32_t rank = tt_team_rank(team, lowest + k * stride), is_own = rank == schedule->shape.rank;
    sources[nsources++] = is_own ? from : tt_message(rank);
    if (!is_own) peers[npeers++] = rank;
    if (nsources < TT_MAX_SOURCES && k < factor - 1) continue;
    spread(schedule, from, peers, npeers);
    combine(schedule, sources, nsources, to);
    sources[0] = to;
    nsources = 1;
    npeers = 0;
  }
}

struct tt_operand tt_round_place(const struct tt_shape *shape, int32_t round, int32_t rounds, int from_in)
{
  if ((rounds - round) % 2) return tt_scratch(0);
  if (round == 1 && from_in) return tt_scratch(rounds == 1 ? 0 : shape->nblocks);
  return tt_out(0);
}

/* ---- parts of a vector --------------------------------------------------------------- */

struct tt_blocks tt_half_part(int32_t nblocks, int32_t size, int32_t id)
{
  int64_t part = 0, first, end;
  for (int32_t bit = 1; bit < size; bit *= 2) part = 2 * part + ((id & bit) != 0);
  first = part * nblocks / size;
  end = (part + 1) * nblocks / size;
  return (struct tt_blocks){(int32_t)first, (int32_t)(end - first)};
}

/* The halves that are exchanged in the round at distance `bit`. */
struct halves {
  struct tt_blocks own, other; /* the member keeps `own`, its partner `other` */
  int32_t partner;             /* rank */
};

static struct halves halves(const struct tt_shape *shape, const struct tt_team *team, int32_t bit)
{
  return (struct halves){tt_half_part(shape->nblocks, 2 * bit, team->id),
                         tt_half_part(shape->nblocks, 2 * bit, team->id ^ bit), tt_team_rank(team, team->id ^ bit)};
}

void tt_team_halve(struct tt_schedule *schedule, const struct tt_team *team, struct tt_operand from)
{
  for (int32_t bit = 1; bit < team->size; bit *= 2) {
    struct halves h = halves(&schedule->shape, team, bit);
    struct tt_operand own = {from.place, h.own.first}, message = tt_message(h.partner);
    int is_behind = h.partner < schedule->shape.rank;
    tt_send(schedule, h.other, (struct tt_operand){from.place, h.other.first}, h.partner);
    tt_reduce2(schedule, h.own, is_behind ? message : own, is_behind ? own : message, tt_out(h.own.first));
    from = tt_out(0);
  }
}

void tt_team_double(struct tt_schedule *schedule, const struct tt_team *team)
{
  for (int32_t bit = team->size / 2; bit; bit /= 2) {
    struct halves h = halves(&schedule->shape, team, bit);
    tt_send(schedule, h.own, tt_out(h.own.first), h.partner);
    tt_recv(schedule, h.other, h.partner, tt_out(h.other.first));
  }
}

void tt_halves_claim(const struct tt_shape *shape, const struct tt_team *team, struct tt_cost *cost)
{
  for (int32_t bit = 1; bit < team->size; bit *= 2) {
    struct halves h = halves(shape, team, bit);
    cost->messages += (h.own.n > 0) + (h.other.n > 0);
    cost->blocks += h.own.n + h.other.n;
    cost->reductions += h.own.n;
  }
}
