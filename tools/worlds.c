/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures a host: worlds of ranks one after the other, each with one transport, started through `tutti run`. They add
 * their measurements to one file, FILE.part, as they go, so whatever ends them, that has what was measured before. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"
#include "transport/transport.h"
#include "tune.h"

#define MAX_WORLDS 64
#define RANKS_LEAST 8       /* so many are tried even where there are fewer cores */
#define SECONDS 40.0        /* of all together */
#define SECONDS_LEAST 0.2
#define PATIENCE_MS 2000    /* a world that has not ended by itself is killed so long after its time */

static volatile sig_atomic_t asked; /* the signal that ends it; 0: none yet */

static void ask(int signal)
{
  asked = signal;
}

/* ---- which worlds ---- */

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

/* ---- one world ---- */

/* In the child; does not return. It has a process group of its own: Ctrl-C is for the process that waits for it. */
static void become_world(const struct tune *tune, const struct screen *screen, const char *part, int fd)
{
  static const char *const settings[] = {"TUTTI_ALGO", "TUTTI_RADIX", "TUTTI_SEGMENT_BYTES", "TUTTI_DETERMINISTIC",
                                         "TUTTI_TOPOLOGY", "TUTTI_TABLE", "TUTTI_PROFILE"};
  char self[PATH_MAX], ranks[16], seconds[32], inner[16], until[32];
  const struct world *world = screen->of;
  ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
  self[len > 0 ? len : 0] = 0;
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  fcntl(fd, F_SETFD, 0);
  setenv("TUTTI_TRANSPORTS", world->transport, 1);
  for (size_t s = 0; s < sizeof settings / sizeof *settings; s++) unsetenv(settings[s]); /* what it is by itself */
  snprintf(ranks, sizeof ranks, "%d", world->ranks);
  snprintf(seconds, sizeof seconds, "%g", screen->seconds);
  snprintf(inner, sizeof inner, "%d", fd);
  snprintf(until, sizeof until, "%lld", screen->until_ms);
  const char *no_kernels = screen->world + 1 < screen->nworlds ? "--no-kernels" : NULL; /* once is enough */
  const char *const args[] = {"tutti", "run", "-n", ranks, "--no-prefix", "--grace", "2", "--", self,
                              "tune", "--inner", inner, "--append", "-o", part, "--seconds", seconds, "--until", until,
                              "--command", tune->command, screen->world ? "--continues" : no_kernels,
                              screen->world ? no_kernels : NULL, NULL};
  execv(self, (char *const *)(uintptr_t)args);
  fprintf(stderr, "tutti tune: cannot start %s: %s\n", self, strerror(errno));
  _exit(127);
}

/* Takes whole lines from text[*used], and moves the rest to its begin. */
static void lines_take(struct screen *screen, char *text, size_t *used)
{
  char *line = text, *end;
  while ((end = memchr(line, '\n', (size_t)(text + *used - line)))) {
    char *what;
    *end = 0;
    double done = strtod(line, &what);
    screen_show(screen, done, *what ? what + 1 : what);
    line = end + 1;
  }
  *used -= (size_t)(line - text);
  memmove(text, line, *used);
}

/* Shows what the world tells until it has ended. If its time is past, or somebody asks for an end, it is killed, and
 * with it its ranks: its file is whole at any time. 1: it was. */
static int world_hear(struct screen *screen, pid_t pid, int fd)
{
  char text[512];
  size_t used = 0;
  int is_killed = 0;
  for (;;) {
    long long left_ms = screen->until_ms + PATIENCE_MS - tune_now_ms();
    if (!is_killed && (asked || left_ms <= 0)) is_killed = kill(pid, SIGKILL) == 0;
    struct pollfd one = {fd, POLLIN, 0};
    int ready = poll(&one, 1, is_killed ? PATIENCE_MS : (int)left_ms);
    if (ready == 0 && is_killed) return 1; /* a rank cannot even die */
    if (ready <= 0) continue;
    ssize_t n = read(fd, text + used, sizeof text - used);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return is_killed;
    used += (size_t)n;
    lines_take(screen, text, &used);
    if (used == sizeof text) used = 0; /* no line of ours */
  }
}

/* Its exit status; -1: it was killed. */
static int world_run(const struct tune *tune, struct screen *screen, const char *part)
{
  int fds[2], status = 0;
  if (pipe2(fds, O_CLOEXEC) != 0) {
    fprintf(stderr, "tutti tune: %s\n", strerror(errno));
    return 1;
  }
  fflush(NULL);
  pid_t pid = fork(), ended;
  if (pid == 0) become_world(tune, screen, part, fds[1]);
  close(fds[1]);
  screen->told_ms = 0;
  int is_killed = pid > 0 && world_hear(screen, pid, fds[0]);
  close(fds[0]);
  while ((ended = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
  if (pid < 0 || ended != pid) {
    fprintf(stderr, "tutti tune: cannot start ranks: %s\n", strerror(errno));
    return 1;
  }
  return is_killed ? -1 : WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

/* ---- the file that worlds add to ---- */

/* When the file was written, in ns; 0: there is none. */
static long long written_ns(const char *path)
{
  struct stat there;
  return stat(path, &there) == 0 ? there.st_mtim.tv_sec * 1000000000LL + there.st_mtim.tv_nsec : 0;
}

/* Begins it: it lies beside the profile, and has its lines if they are kept. */
static int part_begin(const struct tune *tune, const char *part)
{
  struct tt_profile profile = {.nlinks = 0};
  unlink(part); /* of one that was ended */
  if (!tune->append || access(tune->out, F_OK) != 0) return 1;
  if (tt_profile_load(&profile, tune->out) != tuttiSuccess) return !tune_complain();
  int written = profile_write(&profile, part);
  tt_profile_destroy(&profile);
  return written;
}

/* Notes that a world is not in the profile, unless its rank 0 has said what of it is not. */
static int missing_note(struct tt_profile *profile, const struct world *world, const char *from)
{
  struct tt_profile_missing missing = {.nranks = world->ranks, .nnodes = 1};
  for (int32_t i = 0; i < profile->nmissing; i++) {
    const struct tt_profile_missing *has = &profile->missing[i];
    if (has->nranks == world->ranks && has->nnodes == 1 && !strcmp(has->transport, world->transport)) return 1;
  }
  snprintf(missing.transport, sizeof missing.transport, "%s", world->transport);
  snprintf(missing.from, sizeof missing.from, "%s", from);
  return tt_profile_add_missing(profile, &missing) == tuttiSuccess;
}

/* Makes the file that the worlds have left the profile. 0: it cannot, as was said. */
static int part_end(const struct tune *tune, const char *part, const struct world *worlds, int n)
{
  struct tt_profile profile = {.nlinks = 0};
  int is_fine = tt_profile_load(&profile, part) == tuttiSuccess;
  for (int w = 0; w < n && is_fine; w++)
    if (!worlds[w].is_done) is_fine = missing_note(&profile, &worlds[w], w + 1 < n ? "links" : "reduce kernels");
  if (!is_fine) tune_complain();
  else is_fine = profile_write(&profile, tune->out);
  tt_profile_destroy(&profile);
  unlink(part);
  return is_fine;
}

/* ---- all ---- */

/* The seconds left for all remaining worlds, which share them as evenly as the earlier ones allow. */
static double seconds_left(double seconds, long long began_ms)
{
  double left = seconds - (double)(tune_now_ms() - began_ms) / 1e3;
  return left > SECONDS_LEAST ? left : SECONDS_LEAST;
}

/* The exit status of the first world that failed; 0: none has. */
static int worlds_run(const struct tune *tune, struct screen *screen, const char *part, struct world *worlds)
{
  long long began_ms = tune_now_ms();
  int status = 0;
  for (; screen->world < screen->nworlds && status <= 0 && !asked; screen->world++) {
    int left = screen->nworlds - screen->world;
    long long left_ms = tune->until_ms - tune_now_ms();
    if (left_ms < (long long)(SECONDS_LEAST * 1e3)) break;
    screen->of = &worlds[screen->world];
    screen->seconds = seconds_left(tune->seconds, began_ms) / left;
    screen->until_ms = tune_now_ms() + left_ms / left;
    status = world_run(tune, screen, part);
    worlds[screen->world].is_done = status == 0;
  }
  screen_end(screen);
  return status > 0 ? status : 0;
}

int host_measure(struct tune *tune)
{
  struct world worlds[MAX_WORLDS] = {{0}};
  struct screen screen = {.is_terminal = isatty(STDERR_FILENO), .nworlds = worlds_list(tune, worlds)};
  char part[PATH_MAX], beside[PATH_MAX];
  tune_times(tune, SECONDS);
  if (!worlds_check(tune, worlds, screen.nworlds)) return 1;
  snprintf(part, sizeof part, "%s.part", tune->out);
  snprintf(beside, sizeof beside, "%s.part.new", tune->out);
  if (!out_check(tune->out) || !part_begin(tune, part)) return 1;
  long long begun_ns = written_ns(part);
  signals_take(ask);
  int status = worlds_run(tune, &screen, part, worlds), is_kept = written_ns(part) != begun_ns;
  signals_take(SIG_DFL);
  unlink(beside); /* of a rank that was killed */
  if (!is_kept) unlink(part);
  if (!is_kept && !status)
    fprintf(stderr, "tutti tune: it was ended before anything was measured (%s): %s %s\n",
            asked ? strsignal(asked) : "its time was up: give --limit more", tune->out,
            access(tune->out, F_OK) == 0 ? "is left as it was" : "is not written");
  if (is_kept && !part_end(tune, part, worlds, screen.nworlds)) is_kept = 0;
  int said = is_kept ? last_words(tune->out) : 1;
  fflush(stdout);
  if (asked) raise(asked);
  return status ? status : said;
}
