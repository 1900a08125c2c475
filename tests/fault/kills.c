/* SPDX-License-Identifier: BSD-3-Clause */
/* Kills of ranks, drawn by seed: how a rank ends (SIGKILL, SIGSTOP, abort, a fault, exit at once or between calls),
 * when (start-up, collectives, groups, messages, streams, split, shrink, the end of a communicator, steps of a fusion,
 * idle), how many, over which transport, on one host or several. A round is one job, in which the survivors of a kill
 * make a communicator without the dead, which works, and go on in it to the next one. Each survivor ends within the
 * limit by an error that names a rank which was killed, and no result is wrong. Prints the times from the kill to the
 * verdict of each survivor.
 *
 *   test_fault_kills [--seed N] [--rounds N] [--seconds N] [--kills N] [--jobs N] [--totals FILE] [--late-fails]
 *                    [PHASE...]
 *
 * --kills: no new round once there were so many. --late-fails: a verdict later than 1 s (several hosts: 3.5 s) after
 * the kill is a failure; after a stop, later than that and TUTTI_FROZEN_MS or, on several hosts, 1.5 s, as an outage of
 * the network is none. If it is late by no more than a rank was ready and got no processor, it is counted apart.
 * Several hosts are TUTTI_HOSTID on one machine or, with TEST_NAMESPACES (harness/ranks.h), network namespaces.
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"
#include "victims.h"

enum { HANG_S = 40, FROZEN_MS = 600, LATE_US = 1000000, SILENT_US = 1500000, TIMES = 400000 };

#define START_MS "5000" /* the limit of a start-up */

struct times {
  long us[TIMES];
  int n;
};

/* The state of one process that runs rounds. */
struct counts {
  /* On one host; on several, with a rank that lives on the hosts of the victims, and without; of stopped ranks. */
  struct times here, witnessed, alone, frozen;
  long kills, verdicts, hangs, late, starved, alive, others, missing, by_phase[PHASES];
};

static struct asked {
  uint64_t phases; /* bit for each */
  long kills;      /* 0: any */
  int late_fails;
  _Atomic long *killed; /* by all processes that run rounds */
} asked = {.phases = ~0ull};

static int is_wanted(enum phase phase)
{
  return (int)(asked.phases >> phase & 1);
}

static enum phase phase_draw(uint64_t *chance, int is_first)
{
  if (is_first && is_wanted(START) && (asked.phases == 1ull << START || below(chance, 5) == 0)) return START;
  if (is_wanted(DESTROY) && (!(asked.phases & ~(1ull << START | 1ull << DESTROY)) || below(chance, 6) == 0))
    return DESTROY;
  enum phase phase;
  do phase = (enum phase)below(chance, PHASES);
  while (phase == START || phase == DESTROY || !is_wanted(phase));
  return phase;
}

static void epoch_draw(struct epoch *epoch, uint64_t *chance, int is_first)
{
  epoch->phase = phase_draw(chance, is_first);
  epoch->way = below(chance, 2) ? KILL : (enum way)below(chance, WAYS);
  epoch->ended = epoch->phase == SHRINK ? epoch->members[epoch->nmembers - 1] : -1;
  int most = epoch->nmembers - (epoch->phase == SHRINK);
  epoch->nvictims = most > 3 && below(chance, 5) == 0 ? 2 : 1;
  int first = (int)below(chance, (size_t)most);
  epoch->victims[0] = epoch->members[first];
  epoch->victims[1] = epoch->members[(first + 1 + (int)below(chance, (size_t)most - 1)) % most];
  if (epoch->way == STOP && (epoch->phase == START || epoch->phase == DESTROY)) epoch->way = KILL;
  if (epoch->way == STOP) epoch->nvictims = 1; /* whoever hears neither of two hosts takes itself to be cut off */
}

static void world_draw(struct world *world, uint64_t seed)
{
  uint64_t chance = seed;
  int is_given = ranks_transports(1) == NULL;
  world->seed = seed;
  world->nranks = 3 + (int)below(&chance, VICTIMS_RANKS - 2);
  world->nhosts = victims_are_placed() || below(&chance, 2) ? 2 + (int)below(&chance, 2) : 1;
  world->transports = is_given ? ranks_transports(0) : below(&chance, 2) ? "shm,tcp" : "tcp";
  int n = world->nranks, members[VICTIMS_RANKS];
  for (int r = 0; r < n; r++) members[r] = r;
  while (n >= 3 && world->nepochs < VICTIMS_EPOCHS) {
    struct epoch *epoch = &world->epochs[world->nepochs++];
    epoch->nmembers = n;
    memcpy(epoch->members, members, sizeof members);
    epoch_draw(epoch, &chance, world->nepochs == 1);
    n = 0;
    for (int m = 0; m < epoch->nmembers; m++)
      if (!victims_has(epoch, epoch->members[m])) members[n++] = epoch->members[m];
    if (epoch->phase == START || epoch->phase == DESTROY) break;
  }
}

/* The processes of a round, as the one that has started them sees them. */
struct job {
  struct campaign *campaign;
  struct counts *counts;
  struct world *world;
  struct epoch *epoch;
  int pids[VICTIMS_RANKS], status[VICTIMS_RANKS]; /* RUNS: it has not ended */
};
enum { RUNS = -2 };

static int has_ended(struct job *job, int rank)
{
  int status;
  if (job->status[rank] == RUNS && waitpid(job->pids[rank], &status, WNOHANG) == job->pids[rank])
    job->status[rank] = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return job->status[rank] != RUNS;
}

/* The moment when what has not ended hangs. */
static long hang_us(void)
{
  return meeting_now_us() + HANG_S * 1000000L * ranks_patience() * (IS_SLOW ? 3 : 1);
}

/* Waits until each of the ranks has ended: 1. */
static int end_await(struct job *job, const int *ranks, int n)
{
  int left = 1;
  for (long limit = hang_us(); left && meeting_now_us() < limit;) {
    left = 0;
    for (int i = 0; i < n; i++) left += !has_ended(job, ranks[i]);
    if (left) usleep(300);
  }
  return !left;
}

/* Waits until the ranks that are left have come to an epoch; NULL: to their end. 0: one has ended before, something is
 * wrong, or the limit is reached. */
static int arrival_await(struct job *job, struct epoch *next)
{
  struct world *world = job->world;
  for (long limit = hang_us(); meeting_now_us() < limit; usleep(200)) {
    int nleft = 0, nended = 0, nwrong = 0;
    for (int m = 0; m < job->epoch->nmembers; m++) {
      int rank = job->epoch->members[m];
      if (next != job->epoch && victims_has(job->epoch, rank)) continue;
      nleft++;
      nended += has_ended(job, rank);
      nwrong += world->wrong[rank][0] != 0;
    }
    if (next ? atomic_load(&next->arrived) >= next->nmembers : nended == nleft) return 1;
    if (next && (nended || nwrong)) return 0;
  }
  return 0;
}

static void victims_end(struct job *job, uint64_t *chance)
{
  static const int gaps[] = {0, 0, 300, 2000};
  struct epoch *epoch = job->epoch;
  long spread = epoch->phase == START ? 30000 : epoch->phase == DESTROY ? 4000 : 25000;
  usleep((useconds_t)below(chance, (size_t)spread) + (epoch->phase == SHRINK ? 50000 : 0));
  int signal_number = epoch->way == KILL ? SIGKILL : epoch->way == STOP ? SIGSTOP : SIGUSR1;
  if (signal_number != SIGUSR1) atomic_store(&epoch->killed_us, meeting_now_us());
  for (int v = 0; v < epoch->nvictims; v++) {
    kill(job->pids[epoch->victims[v]], signal_number);
    usleep((useconds_t)gaps[below(chance, 4)]);
  }
  if (epoch->way != STOP && !end_await(job, epoch->victims, epoch->nvictims))
    campaign_fail(job->campaign, "a victim does not end: %s", atomic_load(&job->world->where[epoch->victims[0]]));
  atomic_store(&epoch->are_dead, 1);
}

/* Which victim the sentence names, by its process; -1: none. A rank that had not come to a start-up is known to nobody:
 * the time-out names it by its number. */
static int named(const struct job *job, const char *sentence, int *by_number)
{
  const struct epoch *epoch = job->epoch;
  char name[32];
  int is_start = epoch->phase == START;
  *by_number = is_start && (strstr(sentence, "its process is gone") || /* that of the root */
                            strstr(sentence, "did not come within"));
  for (int m = 0; m < epoch->nmembers; m++) {
    int rank = epoch->members[m];
    if (!victims_has(epoch, rank)) continue;
    snprintf(name, sizeof name, "pid %d%s", job->pids[rank], is_start ? "" : " ");
    if (strstr(sentence, name)) return rank;
    snprintf(name, sizeof name, "rank %d", rank);
    *by_number |= is_start && strstr(sentence, name) != NULL;
  }
  return -1;
}

/* The longest time for which a rank was ready between its arrival and its verdict, and did not run. */
static long held_us(const struct epoch *epoch)
{
  long most = 0;
  for (int m = 0; m < epoch->nmembers; m++)
    if (epoch->waited_us[epoch->members[m]] > most) most = epoch->waited_us[epoch->members[m]];
  return most;
}

/* 1: a rank of the host of each victim lives. */
static int has_witness(const struct world *world, const struct epoch *epoch)
{
  for (int v = 0; v < epoch->nvictims; v++) {
    int m = 0;
    while (m < epoch->nmembers && (victims_has(epoch, epoch->members[m]) ||
                                   victims_host(world, epoch->members[m]) != victims_host(world, epoch->victims[v])))
      m++;
    if (m == epoch->nmembers) return 0;
  }
  return 1;
}

static void times_note(struct job *job, int rank)
{
  struct epoch *epoch = job->epoch;
  struct counts *counts = job->counts;
  int nhosts = job->world->nhosts;
  long took = atomic_load(&epoch->knew_us[rank]) - atomic_load(&epoch->killed_us);
  long limit = (nhosts > 1 ? LATE_US * 7 / 2 : LATE_US) * ranks_patience();
  struct times *times = has_witness(job->world, epoch) ? &counts->witnessed : &counts->alone;
  if (nhosts == 1) times = &counts->here;
  if (epoch->way == STOP) times = &counts->frozen;
  if (times->n < TIMES) times->us[times->n++] = took < 0 ? 0 : took;
  if (epoch->way == STOP) took -= nhosts > 1 ? SILENT_US : FROZEN_MS * 1000;
  if (took <= limit) return;
  if (took - held_us(epoch) <= limit) {
    counts->starved++;
    return;
  }
  counts->late++;
  if (asked.late_fails)
    campaign_fail(job->campaign, "rank %d knew after %ld ms: %s", rank, took / 1000, epoch->sentence[rank]);
  else
    printf("  seed %llu, %s: rank %d knew after %ld ms: %s\n", (unsigned long long)job->world->seed,
           victims_phases[epoch->phase], rank, took / 1000, epoch->sentence[rank]);
}

static void survivor_judge(struct job *job, int rank, int *first)
{
  const struct epoch *epoch = job->epoch;
  const char *text = epoch->sentence[rank];
  int code = atomic_load(&epoch->code[rank]) - 1, by_number;
  if (code <= 0) return; /* it hangs, or ended its communicator before it could know */
  job->counts->verdicts++;
  int name = named(job, text, &by_number);
  job->counts->missing += name < 0 && by_number;
  if (name < 0 && !by_number) {
    job->counts->alive++;
    campaign_fail(job->campaign, "rank %d has an error that names no victim: %s", rank, text);
  }
  if (name < 0) return;
  job->counts->others += *first >= 0 && name != *first;
  *first = name;
  times_note(job, rank);
}

/* Goes through one kill: 1 if there may be another one. */
static int epoch_judge(struct job *job, struct epoch *next)
{
  struct epoch *epoch = job->epoch;
  int first = -1, is_well = arrival_await(job, next);
  for (int m = 0; m < epoch->nmembers; m++)
    if (!victims_has(epoch, epoch->members[m])) survivor_judge(job, epoch->members[m], &first);
  if (epoch->way == STOP && is_well) {
    kill(job->pids[epoch->victims[0]], SIGCONT); /* the others have gone on without it, and it hears that */
    is_well = end_await(job, epoch->victims, 1);
    if (!is_well || job->status[epoch->victims[0]])
      campaign_fail(job->campaign, "rank %d, which was stopped, ends with %d: %s", epoch->victims[0],
                    job->status[epoch->victims[0]], atomic_load(&job->world->where[epoch->victims[0]]));
  }
  if (epoch->ended >= 0 && is_well) is_well = end_await(job, &epoch->ended, 1);
  long kills = epoch->nvictims + (epoch->ended >= 0);
  job->counts->kills += kills;
  atomic_fetch_add(asked.killed, kills);
  job->counts->by_phase[epoch->phase]++;
  return is_well && !job->campaign->is_failed;
}

/* Ends what still runs, which is wrong, and says what ranks found wrong. */
static void job_end(struct job *job)
{
  struct world *world = job->world;
  for (int r = 0; r < world->nranks; r++) {
    int is_killed = 0;
    for (const struct epoch *epoch = world->epochs; epoch <= job->epoch; epoch++) is_killed |= victims_has(epoch, r);
    if (world->wrong[r][0]) campaign_fail(job->campaign, "rank %d: %s", r, world->wrong[r]);
    if (!has_ended(job, r)) {
      job->counts->hangs += !is_killed;
      if (!is_killed) campaign_fail(job->campaign, "rank %d has not ended: %s", r, atomic_load(&world->where[r]));
      job->status[r] = ranks_wait(job->pids[r], 0);
    } else if (job->status[r] && !is_killed)
      campaign_fail(job->campaign, "rank %d ends with %d: %s", r, job->status[r], atomic_load(&world->where[r]));
  }
  const struct epoch *epoch = job->epoch;
  if (job->campaign->is_failed)
    printf("  seed %llu: kill %d, %s, %s of %d of %d ranks, %s, %d hosts, waits for a processor up to %ld ms\n",
           (unsigned long long)world->seed, (int)(epoch - world->epochs), victims_phases[epoch->phase],
           victims_ways[epoch->way], epoch->nvictims, epoch->nmembers, world->transports, world->nhosts,
           held_us(epoch) / 1000);
}

static void round_run(struct campaign *campaign, struct counts *counts)
{
  uint64_t chance = campaign->seed ^ 0x51ed270b;
  struct job job = {.campaign = campaign, .counts = counts, .world = ranks_shared(sizeof *job.world)};
  struct world *world = job.world;
  if (!world) exit(2);
  world_draw(world, campaign->seed);
  setenv("TUTTI_TRANSPORTS", world->transports, 1);
  if (world->epochs[0].phase == START) setenv("TUTTI_INIT_TIMEOUT_MS", START_MS, 1);
  else unsetenv("TUTTI_INIT_TIMEOUT_MS");
  for (int r = 0; r < VICTIMS_RANKS; r++) job.status[r] = RUNS;
  if (ranks_start(world->nranks, victims_body, world, job.pids) != 0) exit(2);
  job.epoch = world->epochs;
  int is_well = arrival_await(&job, job.epoch);
  for (int e = 0; e < world->nepochs && is_well; e++) {
    job.epoch = &world->epochs[e];
    victims_end(&job, &chance);
    is_well = epoch_judge(&job, e + 1 < world->nepochs ? job.epoch + 1 : NULL);
  }
  if (!is_well && !campaign->is_failed) campaign_fail(campaign, "the survivors do not go on");
  job_end(&job);
  munmap(world, sizeof *world);
}

static void rounds_run(struct campaign *campaign, void *counts)
{
  while ((!asked.kills || atomic_load(asked.killed) < asked.kills) && campaign_next(campaign))
    round_run(campaign, counts);
}

static void times_add(struct times *times, const struct times *more)
{
  int n = more->n < TIMES - times->n ? more->n : TIMES - times->n;
  memcpy(times->us + times->n, more->us, (size_t)n * sizeof *times->us);
  times->n += n;
}

static void counts_add(struct counts *all, const struct counts *more)
{
  times_add(&all->here, &more->here);
  times_add(&all->witnessed, &more->witnessed);
  times_add(&all->alone, &more->alone);
  times_add(&all->frozen, &more->frozen);
  all->kills += more->kills;
  all->verdicts += more->verdicts;
  all->hangs += more->hangs;
  all->late += more->late;
  all->starved += more->starved;
  all->alive += more->alive;
  all->others += more->others;
  all->missing += more->missing;
  for (int p = 0; p < PHASES; p++) all->by_phase[p] += more->by_phase[p];
}

static double quantile_ms(struct times *times, int permille)
{
  return (double)campaign_quantile(times->us, times->n, permille) / 1000;
}

static void tell(const char *what, struct times *times)
{
  if (!times->n) return;
  printf("  %-17s %7d verdicts, ms: p50 %.1f, p99 %.1f, most %.1f\n", what, times->n, quantile_ms(times, 500),
         quantile_ms(times, 990), quantile_ms(times, 1000));
}

static void report(struct campaign *campaign, struct counts *counts)
{
  tell("one host", &counts->here);
  tell("hosts, a witness", &counts->witnessed);
  tell("hosts, no witness", &counts->alone);
  tell("stopped ranks", &counts->frozen);
  for (int p = 0; p < PHASES; p++)
    printf("%s%s %ld", p ? ", " : "  kills in: ", victims_phases[p], counts->by_phase[p]);
  printf("\n");
  campaign_total(campaign,
                 "kills=%ld verdicts=%ld hangs=%ld late=%ld starved=%ld names_alive=%ld names_other_victim=%ld "
                 "p50_ms=%.1f p99_ms=%.1f p50_witnessed_ms=%.1f p99_witnessed_ms=%.1f p50_alone_ms=%.1f "
                 "p99_alone_ms=%.1f",
                 counts->kills, counts->verdicts, counts->hangs, counts->late, counts->starved, counts->alive,
                 counts->others, quantile_ms(&counts->here, 500), quantile_ms(&counts->here, 990),
                 quantile_ms(&counts->witnessed, 500), quantile_ms(&counts->witnessed, 990),
                 quantile_ms(&counts->alone, 500), quantile_ms(&counts->alone, 990));
}

int main(int argc, char **argv)
{
  struct campaign campaign;
  uint64_t phases_wanted = 0;
  const struct rlimit no_core = {0, 0};
  argc = campaign_read(&campaign, "kills", 5, argc, argv);
  for (int i = 1; i < argc; i++) {
    int p = 0;
    while (p < PHASES && strcmp(argv[i], victims_phases[p]) != 0) p++;
    if (p < PHASES) phases_wanted |= 1ull << p;
    else if (strcmp(argv[i], "--late-fails") == 0) asked.late_fails = 1;
    else if (strcmp(argv[i], "--kills") == 0 && i + 1 < argc) asked.kills = strtol(argv[++i], NULL, 10);
    else return fprintf(stderr, "kills: there is no phase \"%s\"\n", argv[i]), 2;
  }
  if (phases_wanted) asked.phases = phases_wanted;
  if (asked.kills && campaign.rounds == 5) campaign.rounds = INT32_MAX;
  asked.killed = ranks_shared(sizeof *asked.killed);
  setrlimit(RLIMIT_CORE, &no_core);
  setenv("TUTTI_DEBUG", "NONE", 0);
  char frozen[16];
  snprintf(frozen, sizeof frozen, "%d", FROZEN_MS);
  setenv("TUTTI_FROZEN_MS", frozen, 1);
  struct counts *counts = campaign_spread(&campaign, sizeof *counts, rounds_run);
  for (int j = 1; j < campaign.jobs; j++) counts_add(counts, counts + j);
  report(&campaign, counts);
  return campaign_end(&campaign,
                      "%ld kills, %ld verdicts: %ld hangs, %ld later than 1 s (several hosts: 3.5 s), %ld more where "
                      "the machine was busy, %ld named another victim than others, %ld missed one that had not come to "
                      "a start-up",
                      counts->kills, counts->verdicts, counts->hangs, counts->late, counts->starved, counts->others,
                      counts->missing);
}
