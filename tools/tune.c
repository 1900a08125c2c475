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
#include "transport/transport.h"

#define MAX_WORLDS 64
#define RANKS_LEAST 8       /* so many are tried even where there are fewer cores */
#define WORLD_MOST 1024
#define SECONDS_MOST 86400.0
#define SECONDS 40.0        /* of all together */
#define SECONDS_JOB 20.0
#define SECONDS_LEAST 0.2
#define INSIDE_PART 0.6 /* of the time of a job, if links between hosts are measured over several interfaces */
#define TELL_EVERY_MS 100
#define BUSY_STATUS 3

struct tune {
  const char *out, *transports, *interfaces;
  int ranks, append, no_kernels, continues, from_cache, names_out;
  double seconds;
  int inner_fd;             /* of a world's rank 0: where it tells of its progress; -1: it is none */
  char command[256];        /* as it is noted */
};

struct world {
  int ranks;
  char transport[32];
};

struct screen {
  int is_terminal, world, nworlds;
  const struct world *of; /* NULL: a job that somebody else started */
  const char *interface;  /* of which the links between hosts are measured; NULL: all is */
  long told_ms;
  double seconds; /* for the world at hand */
};

static const char *const help =
    "usage: tutti tune [-o FILE] [OPTION...]\n\n"
    "Measures links, reduce kernels and algorithms, and writes the results to a text file, the profile.\n"
    "Communicators use it if TUTTI_PROFILE names it. Without a launcher it measures this host, with jobs of\n"
    "2, 3, 4, 6, 8 ranks (more if there are more cores), over each transport. As the program of a job it\n"
    "measures the hosts of this job: tutti run -n 8 -- tutti tune, or mpirun -n 8 tutti tune.\n\n"
    "  -o, --output FILE      the profile (default: tutti.profile)\n"
    "  -n, --ranks N          jobs of up to N ranks, 1024 at most (default: the cores, at least 8)\n"
    "      --seconds S        about how long all of it may take (default: 40; in a job: 20)\n"
    "      --transports LIST  measure these (default: all of one host; in a job: those of the job)\n"
    "      --interfaces LIST  in a job: measure links between hosts over each of these, such as eth0,eth1; all:\n"
    "                         over each one that is up on all hosts (default: the one in use)\n"
    "      --from-cache       measure nothing: write the built-in profile with the corrections of links that the\n"
    "                         cache of this host keeps, and the algorithms that jobs have learnt (TUTTI_LEARN);\n"
    "                         replaces a file only if -o names it\n"
    "      --append           keep the other lines of FILE; it must be of this machine and kernel\n"
    "  -h, --help             this text\n\n"
    "If the machine was busy before the measurement, do not use the profile: `tune` says so, and its exit\n"
    "status is 3 (as the program of a job it is 0).\n";

/* ---- options ---- */

static void command_note(struct tune *tune, int argc, char **argv)
{
  size_t used = 0;
  for (int a = 0; a < argc && used < sizeof tune->command; a++)
    used += (size_t)snprintf(tune->command + used, sizeof tune->command - used, "%s%s", a ? " " : "", argv[a]);
}

static int seconds_read(struct tune *tune)
{
  const char *at = optarg;
  if (decimal_read(&at, 0, SECONDS_MOST, &tune->seconds) && !*at && tune->seconds > 0) return 1;
  fprintf(stderr, "tutti tune: --seconds is \"%s\": give a number above 0, %g (a day) at most\n", optarg, SECONDS_MOST);
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
  case 's': return seconds_read(tune);
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
      {"inner", required_argument, NULL, 'i'},      {"command", required_argument, NULL, 'c'}, /* these: of a world */
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

/* ---- progress ---- */

static long now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* On a terminal one line that is written again and again; else a line for each world. done: of this world. */
static void screen_show(struct screen *screen, double done, const char *what)
{
  long now = now_ms();
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

static void screen_end(const struct screen *screen)
{
  if (screen->is_terminal) fprintf(stderr, "\r%78s\r", "");
}

static void progress_take(void *context, double done, const char *what)
{
  screen_show(context, done, what);
}

static void progress_send(void *context, double done, const char *what)
{
  const struct tune *tune = context;
  dprintf(tune->inner_fd, "%.4f %s\n", done, what);
}

/* The load before the newest measurement of a profile; 0: it cannot be read. */
static double newest_load(const char *path)
{
  struct tt_profile profile = {.nlinks = 0};
  double load = 0;
  const char *newest = "";
  if (tt_profile_load(&profile, path) != tuttiSuccess) return 0;
  for (int32_t i = 0; i < profile.nmeasured; i++)
    if (strcmp(profile.measured[i].date, newest) >= 0) {
      newest = profile.measured[i].date;
      load = profile.measured[i].load;
    }
  tt_profile_destroy(&profile);
  return load;
}

/* The exit status. */
static int last_words(const char *out)
{
  double load = newest_load(out);
  if (load <= TT_PROFILE_BUSY) {
    printf("%s is written. To choose by it: TUTTI_PROFILE=%s\n", out, out);
    return 0;
  }
  printf("%s is written, but the machine was busy (load %.1f before): do not choose by it, "
         "measure again on an idle one\n", out, load);
  return BUSY_STATUS;
}

/* ---- one job: this process is one of its ranks ---- */

static int complain(void)
{
  fprintf(stderr, "tutti tune: ended by an error, which the library has logged\n");
  return 1;
}

/* Better now than when all is measured. */
static int out_check(const char *path)
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

/* Written beside it and then put in its place, so that there never is half a profile. */
static int profile_write(const struct tt_profile *profile, const char *path)
{
  char beside[PATH_MAX];
  snprintf(beside, sizeof beside, "%s.new", path);
  FILE *file = fopen(beside, "w");
  if (!file) {
    fprintf(stderr, "tutti tune: cannot write %s: %s\n", beside, strerror(errno));
    return 0;
  }
  int written = tt_profile_print(profile, file) == tuttiSuccess;
  if (!written) complain();
  fclose(file);
  if (!written) unlink(beside);
  else if (rename(beside, path) != 0) {
    fprintf(stderr, "tutti tune: cannot write %s: %s\n", path, strerror(errno));
    written = 0;
  }
  return written;
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
  int is_inner = tune->inner_fd >= 0, only_between = share->interface != NULL;
  const double seconds = tune->seconds > 0 ? tune->seconds : SECONDS_JOB;
  const struct tt_measure_options options = {.seconds = share->part * seconds,
                                             .no_inside = only_between,
                                             .no_between = share->no_between,
                                             .no_kernels = tune->no_kernels || only_between,
                                             .no_anchors = only_between,
                                             .command = tune->command,
                                             .continues = tune->continues || only_between,
                                             .progress = is_inner ? progress_send : progress_take,
                                             .context = is_inner ? (void *)(uintptr_t)tune : &screen};
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
    if (result != tuttiSuccess) complain();
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
  if (profile && from && tt_profile_load(profile, from) != tuttiSuccess) return complain();
  tuttiResult_t result = tuttiCommInitRank(&comm, launch->nprocs, launch->id, launch->proc);
  if (result == tuttiSuccess) result = comm_measure(tune, &share, comm, profile);
  int status = result == tuttiSuccess ? 0 : complain();
  if (!status && tune->interfaces) status = interfaces_measure(tune, launch, comm, profile);
  if (!status && profile && !profile_write(profile, tune->out)) status = 1;
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
  if (tune->append || tune->ranks || tune->seconds > 0 || tune->transports || tune->interfaces) {
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
  if (result != tuttiSuccess) return complain();
  return written ? last_words(tune->out) : 1;
}

/* ---- alone: worlds one after the other ---- */

static int cores_count(void)
{
  cpu_set_t all;
  return sched_getaffinity(0, sizeof all, &all) == 0 ? CPU_COUNT(&all) : 1;
}

/* The next smaller world that is measured: of 2^k or 3 * 2^k ranks, for algorithms differ most between those. */
static int world_below(int ranks)
{
  int power = 1;
  while (power * 2 < ranks) power *= 2;
  return power / 2 * 3 < ranks && power >= 2 ? power / 2 * 3 : power;
}

/* Two ranks of this process can tell whether there are such transports, all of a list or one that must do alone: better
 * now than when others are measured. */
static int transports_check(const char *list)
{
  tuttiComm_t comms[2] = {NULL, NULL};
  setenv("TUTTI_TRANSPORTS", list, 1);
  tuttiResult_t result = tuttiCommInitAll(comms, 2, NULL);
  if (result != tuttiSuccess)
    fprintf(stderr, "tutti tune: --transports %s: %s\n", list, tuttiGetErrorString(result));
  for (int r = 0; r < 2; r++) tuttiCommDestroy(comms[r]);
  return result == tuttiSuccess;
}

/* Those that ranks of one host use, in the opposite of the default order: the one that most jobs use comes last. */
static void transports_list(char *list, size_t size)
{
  int n = 0;
  size_t used = 0;
  while (tt_transports[n]) n++;
  list[0] = 0;
  while (--n > 0)
    if (!tt_transports[n]->is_idle_on_one_host && used < size)
      used += (size_t)snprintf(list + used, size - used, "%s%s", used ? "," : "", tt_transports[n]->name);
}

/* For each transport the largest world first: of what several measure the smallest one's counts, where least else
 * happens. */
static int worlds_list(const struct tune *tune, struct world *worlds)
{
  int n = 0, cores = cores_count(), most = tune->ranks ? tune->ranks : cores > RANKS_LEAST ? cores : RANKS_LEAST;
  char list[256], *rest = NULL;
  if (tune->transports) snprintf(list, sizeof list, "%s", tune->transports);
  else transports_list(list, sizeof list);
  for (char *name = strtok_r(list, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
    for (int ranks = most > 2 ? most : 2; ranks >= 2 && n < MAX_WORLDS; ranks = world_below(ranks)) {
      worlds[n].ranks = ranks;
      snprintf(worlds[n++].transport, sizeof worlds->transport, "%s", name);
    }
  }
  return n;
}

static int worlds_check(const struct tune *tune, const struct world *worlds, int n)
{
  if (!tune->transports) return 1;
  if (!n) fprintf(stderr, "tutti tune: --transports is \"%s\": name one or more, as shm,tcp\n", tune->transports);
  if (!n || !transports_check(tune->transports)) return 0;
  for (int w = 0; w < n; w++) {
    int is_new = !w || strcmp(worlds[w].transport, worlds[w - 1].transport) != 0;
    if (is_new && !transports_check(worlds[w].transport)) return 0;
  }
  return 1;
}

/* In the child; does not return. */
static void become_world(const struct tune *tune, const struct screen *screen, const char *part, int fd)
{
  static const char *const settings[] = {"TUTTI_ALGO", "TUTTI_RADIX", "TUTTI_SEGMENT_BYTES", "TUTTI_DETERMINISTIC",
                                         "TUTTI_TOPOLOGY", "TUTTI_TABLE", "TUTTI_PROFILE"};
  char self[PATH_MAX], ranks[16], seconds[32], inner[16];
  const struct world *world = screen->of;
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  fcntl(fd, F_SETFD, 0);
  setenv("TUTTI_TRANSPORTS", world->transport, 1);
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) unsetenv(settings[s]); /* what it is by itself */
  snprintf(ranks, sizeof ranks, "%d", world->ranks);
  snprintf(seconds, sizeof seconds, "%g", screen->seconds);
  snprintf(inner, sizeof inner, "%d", fd);
  const char *no_kernels = screen->world + 1 < screen->nworlds ? "--no-kernels" : NULL; /* once is enough */
  const char *const args[] = {"tutti", "run", "-n", ranks, "--no-prefix", "--grace", "2", "--", self,
                              "tune", "--inner", inner, "--append", "-o", part, "--seconds", seconds, "--command",
                              tune->command, screen->world ? "--continues" : no_kernels,
                              screen->world ? no_kernels : NULL, NULL};
  execv(self, (char *const *)(uintptr_t)args);
  fprintf(stderr, "tutti tune: cannot start %s: %s\n", self, strerror(errno));
  _exit(127);
}

/* Its exit status. */
static int world_run(const struct tune *tune, struct screen *screen, const char *part)
{
  char line[256];
  int fds[2], status;
  if (pipe2(fds, O_CLOEXEC) != 0) {
    fprintf(stderr, "tutti tune: %s\n", strerror(errno));
    return 1;
  }
  fflush(NULL);
  pid_t pid = fork();
  if (pid == 0) become_world(tune, screen, part, fds[1]);
  close(fds[1]);
  FILE *told = fdopen(fds[0], "r");
  screen->told_ms = 0;
  while (told && fgets(line, sizeof line, told)) {
    char *what;
    double done = strtod(line, &what);
    line[strcspn(line, "\n")] = 0;
    screen_show(screen, done, *what ? what + 1 : what);
  }
  if (told) fclose(told);
  if (pid < 0 || waitpid(pid, &status, 0) != pid) {
    fprintf(stderr, "tutti tune: cannot start ranks: %s\n", strerror(errno));
    return 1;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* Begins the file that the worlds add to: it lies beside the profile, and has its lines if they are kept. */
static int part_begin(const struct tune *tune, const char *part)
{
  struct tt_profile profile = {.nlinks = 0};
  unlink(part); /* of one that was ended */
  if (!tune->append || access(tune->out, F_OK) != 0) return 1;
  if (tt_profile_load(&profile, tune->out) != tuttiSuccess) return !complain();
  int written = profile_write(&profile, part);
  tt_profile_destroy(&profile);
  return written;
}

/* The seconds left for all remaining worlds, which share them as evenly as the earlier ones allow. */
static double seconds_left(double seconds, long began_ms)
{
  double left = seconds - (double)(now_ms() - began_ms) / 1e3;
  return left > SECONDS_LEAST ? left : SECONDS_LEAST;
}

static int host_measure(struct tune *tune)
{
  long began_ms = now_ms();
  struct world worlds[MAX_WORLDS];
  struct screen screen = {.is_terminal = isatty(STDERR_FILENO), .nworlds = worlds_list(tune, worlds)};
  char part[PATH_MAX];
  int status = 0;
  if (tune->seconds == 0) tune->seconds = SECONDS;
  if (!worlds_check(tune, worlds, screen.nworlds)) return 1;
  snprintf(part, sizeof part, "%s.part", tune->out);
  if (!out_check(tune->out) || !part_begin(tune, part)) return 1;
  for (; screen.world < screen.nworlds && !status; screen.world++) {
    screen.of = &worlds[screen.world];
    screen.seconds = seconds_left(tune->seconds, began_ms) / (screen.nworlds - screen.world);
    status = world_run(tune, &screen, part);
  }
  screen_end(&screen);
  if (status) {
    unlink(part);
    return status;
  }
  if (rename(part, tune->out) == 0) return last_words(tune->out);
  fprintf(stderr, "tutti tune: cannot write %s: %s\n", tune->out, strerror(errno));
  return 1;
}

int command_tune(int argc, char **argv)
{
  struct tune tune = {.out = "tutti.profile", .inner_fd = -1};
  tuttiLaunch_t launch;
  int parsed = options_parse(&tune, argc, argv);
  if (parsed >= 0) return parsed;
  if (tune.from_cache) return cache_take(&tune);
  if (tuttiGetLaunch(&launch) != tuttiSuccess) return complain();
  if (launch.nprocs == 1 && !tune.interfaces) return host_measure(&tune);
  if (launch.nprocs == 1) {
    fprintf(stderr, "tutti tune: --interfaces is for jobs of several hosts: start one rank or more on each\n");
    return 2;
  }
  if (!tune.ranks) return job_measure(&tune, &launch);
  fprintf(stderr, "tutti tune: -n is %d, but this is a job of %d ranks: leave -n out\n", tune.ranks, launch.nprocs);
  return 2;
}
