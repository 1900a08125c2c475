/* SPDX-License-Identifier: BSD-3-Clause */
/* `tutti tune`: measures this machine, or the machines of a job, into a profile.
 *
 * Alone it starts one world of ranks after the other through `tutti run`, each with one transport; these tell of their
 * progress through a pipe and add what they measured to the same file. Inside of a job it measures just that one. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "command.h"
#include "measure/measure.h"
#include "profiles/profiles.h"
#include "tune.h"

#define WORLD_MOST 1024
#define SECONDS_MOST 86400.0
#define SECONDS_JOB 20.0
#define BEYOND_PART 0.25 /* of --seconds, or */
#define BEYOND_LEAST_S 5.0
#define KEEP_EVERY_MS 1000
#define INSIDE_PART 0.6 /* of the time of a job, if links between hosts are measured over several interfaces */
#define TELL_EVERY_MS 100
#define BUSY_STATUS 3
#define PARTIAL_STATUS 4

static const char *const help =
    "usage: tutti tune [-o FILE] [OPTION...]\n\n"
    "Measures links, reduce kernels and algorithms, and writes the results to a text file, the profile.\n"
    "Communicators use it if TUTTI_PROFILE names it. Without a launcher it measures this host, with jobs of\n"
    "2, 3, 4, 6, 8 ranks (more if there are more cores), over each transport. As the program of a job it\n"
    "measures the hosts of this job: tutti run -n 8 -- tutti tune, or mpirun -n 8 tutti tune.\n\n"
    "  -o, --output FILE      the profile (default: tutti.profile)\n"
    "  -n, --ranks N          jobs of up to N ranks, 1024 at most (default: the cores, at least 8)\n"
    "      --seconds S        about how long all of it may take (default: 40; in a job: 20)\n"
    "      --limit S          it ends then, with what it has, 2 s later at most; in a job with the operation under\n"
    "                         way (default: a quarter beyond --seconds, or 5 s if that is more)\n"
    "      --transports LIST  measure these (default: all of one host; in a job: those of the job)\n"
    "      --interfaces LIST  in a job: measure links between hosts over each of these, such as eth0,eth1; all:\n"
    "                         over each one that is up on all hosts (default: the one in use)\n"
    "      --from-cache       measure nothing: write the built-in profile with the corrections of links that the\n"
    "                         cache of this host keeps, and the algorithms that jobs have learnt (TUTTI_LEARN);\n"
    "                         replaces a file only if -o names it\n"
    "      --append           keep the other lines of FILE; it must be of this machine and kernel\n"
    "  -h, --help             this text\n\n"
    "On a busy machine the time may not do. Whatever was not measured by --limit, or until Ctrl-C or SIGTERM, is\n"
    "left out: FILE has the rest, with lines `missing`, and the exit status is 4. If the machine was busy before\n"
    "the measurement, do not use the profile: `tune` says so, and its exit status is 3. (As the program of a job\n"
    "it is 0.)\n";

/* ---- options ---- */

static void command_note(struct tune *tune, int argc, char **argv)
{
  size_t used = 0;
  for (int a = 0; a < argc && used < sizeof tune->command; a++)
    used += (size_t)snprintf(tune->command + used, sizeof tune->command - used, "%s%s", a ? " " : "", argv[a]);
}

static int seconds_read(const char *option, double *seconds)
{
  const char *at = optarg;
  if (decimal_read(&at, 0, SECONDS_MOST, seconds) && !*at && *seconds > 0) return 1;
  fprintf(stderr, "tutti tune: %s is \"%s\": give a number above 0, %g (a day) at most\n", option, optarg,
          SECONDS_MOST);
  return 0;
}

static int ranks_read(struct tune *tune)
{
  long long number;
  if (!number_read("tune", "-n", DIGITS, (const long long[]){2, WORLD_MOST}, &number)) return 0;
  tune->ranks = (int)number;
  return 1;
}

static int option_take(struct tune *tune, int option)
{
  switch (option) {
  case 'o': tune->out = optarg, tune->names_out = 1; return 1;
  case 'n': return ranks_read(tune);
  case 's': return seconds_read("--seconds", &tune->seconds);
  case 'l': return seconds_read("--limit", &tune->limit);
  case 'u': tune->until_ms = atoll(optarg); return 1;
  case 't': tune->transports = optarg; return 1;
  case 'I': tune->interfaces = optarg; return 1;
  case 'a': tune->append = 1; return 1;
  case 'k': tune->no_kernels = 1; return 1;
  case 'C': tune->continues = 1; return 1;
  case 'F': tune->from_cache = 1; return 1;
  case 'i': tune->inner_fd = atoi(optarg); return 1;
  case 'c': snprintf(tune->command, sizeof tune->command, "%s", optarg); return 1;
  default: usage_point("tune"); return 0;
  }
}

/* -1: go on; else the exit status. */
static int options_parse(struct tune *tune, int argc, char **argv)
{
  static const struct option options[] = {
      {"output", required_argument, NULL, 'o'},     {"ranks", required_argument, NULL, 'n'},
      {"seconds", required_argument, NULL, 's'},    {"transports", required_argument, NULL, 't'},
      {"interfaces", required_argument, NULL, 'I'}, {"append", no_argument, NULL, 'a'},
      {"help", no_argument, NULL, 'h'},             {"from-cache", no_argument, NULL, 'F'},
      {"limit", required_argument, NULL, 'l'},      {"until", required_argument, NULL, 'u'}, /* from here: of a world */
      {"inner", required_argument, NULL, 'i'},      {"command", required_argument, NULL, 'c'},
      {"no-kernels", no_argument, NULL, 'k'},       {"continues", no_argument, NULL, 'C'},         {0}};
  int option;
  optind = 1;
  command_note(tune, argc, argv);
  while ((option = getopt_long(argc, argv, "o:n:h", options, NULL)) != -1) {
    if (option == 'h') {
      fputs(help, stdout);
      return 0;
    }
    if (!option_take(tune, option)) return 2;
  }
  if (optind == argc) return -1;
  fprintf(stderr, "tutti tune: \"%s\" is no option, and nothing else is taken\n", argv[optind]);
  return 2;
}

long long tune_now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

void tune_times(struct tune *tune, double seconds)
{
  if (tune->seconds == 0) tune->seconds = tune->limit > 0 && tune->limit < seconds ? tune->limit : seconds;
  double part = BEYOND_PART * tune->seconds, beyond = part > BEYOND_LEAST_S ? part : BEYOND_LEAST_S;
  if (tune->limit == 0) tune->limit = tune->seconds + beyond;
  if (tune->until_ms == 0) tune->until_ms = tune_now_ms() + (long long)(tune->limit * 1e3);
}

void signals_take(void (*handler)(int))
{
  struct sigaction action = {.sa_handler = handler}, before; /* without SA_RESTART: poll() is to end */
  const int signals[] = {SIGINT, SIGTERM, SIGHUP};
  for (int s = 0; s < 3; s++)
    if (sigaction(signals[s], NULL, &before) == 0 && before.sa_handler != SIG_IGN) /* as nohup has it */
      sigaction(signals[s], &action, NULL);
}

/* ---- progress ---- */

void screen_show(struct screen *screen, double done, const char *what)
{
  long long now = tune_now_ms();
  char line[160], world[64] = "";
  int is_first = !screen->told_ms;
  if (screen->of) snprintf(world, sizeof world, "%d ranks over %s", screen->of->ranks, screen->of->transport);
  if (!screen->is_terminal) {
    if (is_first && screen->of)
      fprintf(stderr, "tutti tune: %d of %d: %s\n", screen->world + 1, screen->nworlds, world);
    else if (is_first && screen->interface)
      fprintf(stderr, "tutti tune: links between hosts over %s\n", screen->interface);
    else if (is_first) fprintf(stderr, "tutti tune: measuring this job\n");
  } else if (is_first || now - screen->told_ms >= TELL_EVERY_MS) {
    snprintf(line, sizeof line, "%3.0f %%  %s%s%s", 100 * (screen->world + done) / screen->nworlds, world,
             *world ? ": " : "", what);
    fprintf(stderr, "\r%-78.78s", line);
  } else return;
  screen->told_ms = now;
}

void screen_end(const struct screen *screen)
{
  if (screen->is_terminal) fprintf(stderr, "\r%78s\r", "");
}

struct watch {
  const struct tune *tune;
  struct screen *screen;
  long long kept_ms; /* 0: nothing is kept yet */
};

static void progress_take(void *context, double done, const char *what)
{
  const struct watch *watch = context;
  screen_show(watch->screen, done, what);
}

static void progress_send(void *context, double done, const char *what)
{
  const struct watch *watch = context;
  dprintf(watch->tune->inner_fd, "%.4f %s\n", done, what);
}

/* The load before the newest measurement of a profile, 0 if it cannot be read, and the number of jobs of which
 * something is missing. */
static double newest_load(const char *path, int *nmissing)
{
  struct tt_profile profile = {.nlinks = 0};
  double load = 0;
  const char *newest = "";
  *nmissing = 0;
  if (tt_profile_load(&profile, path) != tuttiSuccess) return 0;
  *nmissing = (int)profile.nmissing;
  for (int32_t i = 0; i < profile.nmeasured; i++)
    if (strcmp(profile.measured[i].date, newest) >= 0) {
      newest = profile.measured[i].date;
      load = profile.measured[i].load;
    }
  tt_profile_destroy(&profile);
  return load;
}

int last_words(const char *out)
{
  int nmissing;
  double load = newest_load(out, &nmissing);
  printf("%s is written", out);
  if (nmissing)
    printf(" in part, for %d %s not measured to the end (lines `missing`)", nmissing,
           nmissing == 1 ? "job was" : "jobs were");
  if (load <= TT_PROFILE_BUSY) {
    printf(". To choose by it: TUTTI_PROFILE=%s\n", out);
    return nmissing ? PARTIAL_STATUS : 0;
  }
  printf(", but the machine was busy (load %.1f before): do not choose by it, measure again on an idle one\n", load);
  return BUSY_STATUS;
}

/* ---- one job: this process is one of its ranks ---- */

int tune_complain(void)
{
  fprintf(stderr, "tutti tune: ended by an error, which the library has logged\n");
  return 1;
}

int out_check(const char *path)
{
  char beside[PATH_MAX];
  struct stat there;
  int is_folder = stat(path, &there) == 0 && S_ISDIR(there.st_mode);
  snprintf(beside, sizeof beside, "%s.new", path);
  int file = is_folder ? -1 : open(beside, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    fprintf(stderr, "tutti tune: cannot write %s: %s\n", path, strerror(is_folder ? EISDIR : errno));
    return 0;
  }
  close(file);
  unlink(beside);
  return 1;
}

int profile_write(const struct tt_profile *profile, const char *path)
{
  char beside[PATH_MAX];
  snprintf(beside, sizeof beside, "%s.new", path);
  FILE *file = fopen(beside, "w");
  if (!file) {
    fprintf(stderr, "tutti tune: cannot write %s: %s\n", beside, strerror(errno));
    return 0;
  }
  int written = tt_profile_print(profile, file) == tuttiSuccess;
  if (!written) tune_complain();
  fclose(file);
  if (!written) unlink(beside);
  else if (rename(beside, path) != 0) {
    fprintf(stderr, "tutti tune: cannot write %s: %s\n", path, strerror(errno));
    written = 0;
  }
  return written;
}

/* The measurements of rank 0 so far lie beside the profile, and take its place if the job ends too early. */
static struct {
  char part[PATH_MAX], beside[PATH_MAX], out[PATH_MAX];
  volatile sig_atomic_t is_there;
} kept;

/* 1: it has. Also called by a signal handler. */
static int kept_take(void)
{
  unlink(kept.beside);
  return kept.is_there && rename(kept.part, kept.out) == 0;
}

static void end_by(int signal)
{
  static const char some[] = "tutti tune: ended: the profile has what was measured until then, and lines `missing`\n",
                    old[] = "tutti tune: ended before anything was measured: the profile is left as it was\n",
                    none[] = "tutti tune: ended before anything was measured: no profile is written\n";
  int is_taken = kept_take(), is_old = !is_taken && access(kept.out, F_OK) == 0;
  ssize_t n = write(STDERR_FILENO, is_taken ? some : is_old ? old : none,
                    (is_taken ? sizeof some : is_old ? sizeof old : sizeof none) - 1);
  (void)n;
  struct sigaction action = {.sa_handler = SIG_DFL};
  sigaction(signal, &action, NULL);
  raise(signal); /* ends the process when this returns */
}

/* On rank 0 of a job that somebody else started. */
static void kept_begin(const char *out)
{
  snprintf(kept.out, sizeof kept.out, "%s", out);
  snprintf(kept.part, sizeof kept.part, "%s.part", out);
  snprintf(kept.beside, sizeof kept.beside, "%s.part.new", out);
  signals_take(end_by);
}

static void keep(void *context, const struct tt_profile *profile)
{
  struct watch *watch = context;
  long long now = tune_now_ms();
  int is_inner = watch->tune->inner_fd >= 0;
  if (watch->kept_ms && now - watch->kept_ms < KEEP_EVERY_MS) return;
  watch->kept_ms = now;
  if (profile_write(profile, is_inner ? watch->tune->out : kept.part)) kept.is_there = !is_inner;
}

/* The part of a job that one communicator measures, and its part of the time. */
struct share {
  double part;
  int no_between;
  const char *interface; /* only links between hosts, over this one; NULL: all */
};

static tuttiResult_t comm_measure(const struct tune *tune, const struct share *share, tuttiComm_t comm,
                                  struct tt_profile *profile)
{
  struct screen screen = {
      .is_terminal = isatty(STDERR_FILENO), .nworlds = 1, .interface = share->interface};
  struct watch watch = {.tune = tune, .screen = &screen};
  int is_inner = tune->inner_fd >= 0, only_between = share->interface != NULL;
  long long left_ms = tune->until_ms - tune_now_ms();
  const struct tt_measure_options options = {.seconds = share->part * tune->seconds,
                                             .limit_s = left_ms > 0 ? (double)left_ms / 1e3 : 1e-3,
                                             .no_inside = only_between,
                                             .no_between = share->no_between,
                                             .no_kernels = tune->no_kernels || only_between,
                                             .no_anchors = only_between,
                                             .command = tune->command,
                                             .continues = tune->continues || only_between,
                                             .progress = is_inner ? progress_send : progress_take,
                                             .keep = keep,
                                             .context = &watch};
  tuttiResult_t result = tt_measure(comm, &options, profile);
  if (profile && !is_inner) screen_end(&screen);
  return result;
}

/* Links between hosts, over each interface by a communicator of its own. */
static int interfaces_measure(const struct tune *tune, const tuttiLaunch_t *launch, tuttiComm_t first,
                              struct tt_profile *profile)
{
  struct interfaces found;
  int rank = launch->proc, nranks = launch->nprocs;
  if (!interfaces_agree(&found, tune->interfaces, first, rank)) return 1;
  for (int i = 0; i < found.n; i++) {
    tuttiComm_t comm = NULL;
    const struct share share = {.part = (1 - INSIDE_PART) / found.n, .interface = found.names[i]};
    tuttiResult_t result = interface_take(&comm, found.names[i], first, rank, nranks);
    if (result == tuttiSuccess) result = comm_measure(tune, &share, comm, profile);
    if (result != tuttiSuccess) tune_complain();
    if (tuttiCommDestroy(comm) != tuttiSuccess || result != tuttiSuccess) return 1;
  }
  return 0;
}

static int job_measure(const struct tune *tune, const tuttiLaunch_t *launch)
{
  struct tt_profile own = {.nlinks = 0}, *profile = launch->proc == 0 ? &own : NULL;
  tuttiComm_t comm = NULL;
  const struct share share = {.part = tune->interfaces ? INSIDE_PART : 1, .no_between = tune->interfaces != NULL};
  const char *from = tune->append && access(tune->out, F_OK) == 0 ? tune->out : NULL;
  if (tune->transports) setenv("TUTTI_TRANSPORTS", tune->transports, 1);
  if (profile && !out_check(tune->out)) return 1;
  if (profile && from && tt_profile_load(profile, from) != tuttiSuccess) return tune_complain();
  if (profile && tune->inner_fd < 0) kept_begin(tune->out);
  tuttiResult_t result = tuttiCommInitRank(&comm, launch->nprocs, launch->id, launch->proc);
  if (result == tuttiSuccess) result = comm_measure(tune, &share, comm, profile);
  int status = result == tuttiSuccess ? 0 : tune_complain();
  if (!status && tune->interfaces) status = interfaces_measure(tune, launch, comm, profile);
  if (!status && profile && !profile_write(profile, tune->out)) status = 1;
  if (!status && kept.is_there) unlink(kept.part);
  else if (kept_take()) fprintf(stderr, "tutti tune: %s has what was measured until then\n", tune->out);
  if (profile && tune->inner_fd < 0) signals_take(SIG_DFL);
  if (tuttiCommDestroy(comm) != tuttiSuccess) status = 1;
  if (!status && profile && tune->inner_fd < 0) last_words(tune->out); /* not the failure of a rank */
  tt_profile_destroy(profile);
  return status;
}

/* ---- nothing is measured ---- */

static int cache_take(const struct tune *tune)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tt_settings settings;
  if (tune->append || tune->ranks || tune->seconds > 0 || tune->limit > 0 || tune->transports || tune->interfaces) {
    fprintf(stderr, "tutti tune: --from-cache measures nothing: leave all options out but -o\n");
    return 2;
  }
  if (!tune->names_out && access(tune->out, F_OK) == 0) {
    fprintf(stderr, "tutti tune: %s is there, and may be what was measured: give -o, its name to replace it\n",
            tune->out);
    return 1;
  }
  if (!out_check(tune->out)) return 1;
  tuttiResult_t result = tt_settings_load(&settings);
  tt_measure_machine(&profile);
  if (result == tuttiSuccess) result = tt_profile_from_cache(&profile, &settings);
  if (result == tuttiSuccess) result = tt_measure_note(&profile, tune->command, 0);
  int written = result == tuttiSuccess && profile_write(&profile, tune->out);
  tt_profile_destroy(&profile);
  if (result != tuttiSuccess) return tune_complain();
  return written ? last_words(tune->out) : 1;
}

int command_tune(int argc, char **argv)
{
  struct tune tune = {.out = "tutti.profile", .inner_fd = -1};
  tuttiLaunch_t launch;
  int parsed = options_parse(&tune, argc, argv);
  if (parsed >= 0) return parsed;
  if (tune.from_cache) return cache_take(&tune);
  if (tuttiGetLaunch(&launch) != tuttiSuccess) return tune_complain();
  if (launch.nprocs == 1 && !tune.interfaces) return host_measure(&tune);
  if (launch.nprocs == 1) {
    fprintf(stderr, "tutti tune: --interfaces is for jobs of several hosts: start one rank or more on each\n");
    return 2;
  }
  tune_times(&tune, SECONDS_JOB);
  if (!tune.ranks) return job_measure(&tune, &launch);
  fprintf(stderr, "tutti tune: -n is %d, but this is a job of %d ranks: leave -n out\n", tune.ranks, launch.nprocs);
  return 2;
}
