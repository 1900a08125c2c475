/* SPDX-License-Identifier: BSD-3-Clause */
/* Jobs on several hosts: `tutti run -H` starts `tutti run --part` on each of them through ssh.
 *
 * Both speak on pipes of ssh. The part reads on its standard input texts with a NUL behind each (the list of `words` in
 * host_tell), the id with the key among them, which so is in no argument and in no environment; then each byte is a
 * signal for its ranks; at the end of the input, when the launcher or the connection is gone, it ends them. It prints
 * the lines of its ranks with their prefixes, and on standard error a line for each rank that has ended. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

#define WORDS_MOST 65536
#define HEAD "tutti run --part"
#define ENDED '\1' /* begins a line about a rank that has ended */
#define ID_DIGITS (2 * TUTTI_UNIQUE_ID_BYTES)

extern char **environ;

/* ---- the list of hosts ---- */

/* Cuts ":N" off a host, and the brackets of an address; 0: N is no number of ranks. */
static int host_cut(struct host *host, char *text)
{
  char *colon = strrchr(text, ':'), *close = strrchr(text, ']');
  int is_address = strchr(text, ':') != colon && !close; /* IPv6 without brackets has no N */
  host->name = text;
  host->ranks = 0;
  if (colon && !is_address && !(close && close > colon)) {
    char *end;
    long n = strtol(colon + 1, &end, 10);
    if (!isdigit((unsigned char)colon[1]) || *end || n < 1 || n > MAX_RANKS) return 0;
    *colon = 0;
    host->ranks = (int)n;
  }
  if (*text == '[' && close) {
    host->name = text + 1;
    *close = 0;
  }
  return 1;
}

static int hosts_refuse(const char *list, const char *why)
{
  fprintf(stderr, "tutti run: -H is \"%s\": %s\n", list, why);
  return 0;
}

int hosts_read(struct job *job, const char *list, int ranks)
{
  int counted = 0, sum = 0;
  char *rest = NULL;
  job->host_list = strdup(list);
  job->hosts = calloc(HOSTS_MOST, sizeof *job->hosts);
  if (!job->host_list || !job->hosts) return hosts_refuse(list, "there is no memory for it");
  for (char *text = strtok_r(job->host_list, ",", &rest); text; text = strtok_r(NULL, ",", &rest)) {
    if (job->nhosts == HOSTS_MOST) return hosts_refuse(list, "1024 hosts at most are possible");
    struct host *host = &job->hosts[job->nhosts++];
    if (!host_cut(host, text)) return hosts_refuse(list, "give HOST or HOST:N, with N from 1 to 4096 ranks");
    if (!*host->name || *host->name == '-') return hosts_refuse(list, "names are not empty, and do not begin with -");
    counted += host->ranks > 0;
    sum += host->ranks;
  }
  if (!job->nhosts) return hosts_refuse(list, "give HOST[:N],HOST[:N],...");
  if (counted && counted < job->nhosts) return hosts_refuse(list, "give each host its :N, or none of them");
  if (counted && ranks && ranks != sum) return hosts_refuse(list, "leave out -n, or give the sum of all N");
  if (!counted && !ranks) ranks = job->nhosts;
  if (!counted && ranks < job->nhosts) return hosts_refuse(list, "-n is less than the number of hosts");
  for (int h = 0; h < job->nhosts && !counted; h++)
    job->hosts[h].ranks = ranks / job->nhosts + (h < ranks % job->nhosts);
  job->total = counted ? sum : ranks;
  return job->total <= MAX_RANKS ? 1 : hosts_refuse(list, "4096 ranks at most are possible");
}

/* ---- the launcher's side ---- */

void host_become(const struct job *job, int host)
{
  char *words[64], *rest = NULL, *command = strdup(job->ssh), there[4096];
  int n = 0;
  for (char *word = command ? strtok_r(command, " ", &rest) : NULL; word && n < 60; word = strtok_r(NULL, " ", &rest))
    words[n++] = word;
  size_t used = (size_t)snprintf(there, sizeof there, "exec '");
  for (const char *at = job->tutti; *at && used + 8 < sizeof there; at++) /* a quote ends the quotes */
    used += (size_t)snprintf(there + used, sizeof there - used, *at == '\'' ? "'\\''" : "%c", *at);
  snprintf(there + used, sizeof there - used, "' run --part");
  char *name = strdup(job->hosts[host].name);
  if (!n || !name) _exit(126);
  words[n++] = name;
  words[n++] = there;
  words[n] = NULL;
  execvp(words[0], words);
  fprintf(stderr, "tutti run: cannot start %s: %s\n", words[0], strerror(errno));
  _exit(errno == ENOENT ? 127 : 126);
}

/* Says whether ranks of another host get the variable: settings, except those of this host. */
static int is_told(const char *entry)
{
  return strncmp(entry, "TUTTI_", 6) == 0 && strncmp(entry, "TUTTI_LAUNCH_", 13) != 0 &&
         strncmp(entry, "TUTTI_HOSTID=", 13) != 0 && strncmp(entry, "TUTTI_LIBRARY=", 14) != 0;
}

static void word(FILE *out, const char *text)
{
  fwrite(text, 1, strlen(text) + 1, out);
}

void host_tell(const struct job *job, int host, int fd)
{
  char digits[ID_DIGITS + 1], folder[4096] = "";
  int first = 0, told = 0, arguments = 0;
  FILE *out = fdopen(dup(fd), "w");
  if (!out) return; /* the part hears the end of its input */
  for (int h = 0; h < host; h++) first += job->hosts[h].ranks;
  for (int b = 0; b < TUTTI_UNIQUE_ID_BYTES; b++)
    snprintf(digits + 2 * b, 3, "%02x", (unsigned)(unsigned char)job->id.internal[b]);
  for (char **entry = environ; *entry; entry++) told += is_told(*entry);
  while (job->program[arguments]) arguments++;
  word(out, HEAD);
  fprintf(out, "%d%c%d %d %d %d %d %d %ld %d %d %d%c", TUTTI_VERSION_CODE, 0, first, job->hosts[host].ranks, job->total,
          job->prefix, job->keep_going, job->bind, job->grace_ms, job->master.port, told, arguments, 0);
  word(out, digits);
  word(out, job->master.host);
  word(out, getcwd(folder, sizeof folder) ? folder : "");
  for (char **entry = environ; *entry; entry++)
    if (is_told(*entry)) word(out, *entry);
  for (int a = 0; a < arguments; a++) word(out, job->program[a]);
  fclose(out);
  explicit_bzero(digits, sizeof digits);
}

int part_heard(const char *line, size_t len, int *proc, int *pid, int *status)
{
  char text[64];
  if (!len || line[0] != ENDED || len >= sizeof text) return 0;
  memcpy(text, line + 1, len - 1);
  text[len - 1] = 0;
  return sscanf(text, "%d %d %d", proc, pid, status) == 3;
}

/* ---- the part's side ---- */

void part_say(int proc, int pid, int status)
{
  dprintf(STDERR_FILENO, "%c%d %d %d\n", ENDED, proc, pid, status);
}

/* The next text of standard input, byte by byte: behind the last one come signals. NULL: it has ended. */
static char *word_read(void)
{
  size_t used = 0, room = 256;
  char *text = malloc(room);
  while (text) {
    if (used == room) {
      char *larger = realloc(text, room *= 2);
      if (!larger) break;
      text = larger;
    }
    ssize_t n = read(STDIN_FILENO, text + used, 1);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    if (!text[used++]) return text;
  }
  free(text);
  return NULL;
}

/* Frees what was read. */
static int part_refuse(char *text, const char *why)
{
  free(text);
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  fprintf(stderr, "tutti run: on %s: %s\n", host, why);
  return 0;
}

static int id_read(tuttiUniqueId *id, const char *digits)
{
  if (!digits || strlen(digits) != ID_DIGITS) return 0;
  for (int b = 0; b < TUTTI_UNIQUE_ID_BYTES; b++) {
    unsigned byte;
    if (sscanf(digits + 2 * b, "%2x", &byte) != 1) return 0;
    id->internal[b] = (char)byte;
  }
  return 1;
}

int part_read(struct job *job)
{
  static const char unread[] = "what `tutti run -H` says is not understood: --part is for that alone";
  char said[512], *text = word_read();
  int settings, arguments;
  if (!text || strcmp(text, HEAD) != 0) return part_refuse(text, unread);
  free(text);
  text = word_read();
  if (!text || atoi(text) != TUTTI_VERSION_CODE) {
    snprintf(said, sizeof said,
             "Tutti has version %d here, and %.20s where it was started: install the same one everywhere",
             TUTTI_VERSION_CODE, text ? text : "none");
    return part_refuse(text, said);
  }
  free(text);
  text = word_read();
  if (!text || sscanf(text, "%d %d %d %d %d %d %ld %d %d %d", &job->first, &job->nprocs, &job->total, &job->prefix,
                      &job->keep_going, &job->bind, &job->grace_ms, &job->master.port, &settings, &arguments) != 10 ||
      job->nprocs < 1 || job->nprocs > job->total || job->total > MAX_RANKS || job->first < 0 ||
      job->first > job->total - job->nprocs || settings < 0 || arguments < 1 || arguments > WORDS_MOST)
    return part_refuse(text, unread);
  free(text);
  text = word_read();
  if (!id_read(&job->id, text)) return part_refuse(text, unread);
  explicit_bzero(text, strlen(text));
  free(text);
  text = word_read();
  snprintf(job->master.host, sizeof job->master.host, "%s", text ? text : "");
  free(text);
  text = word_read();
  if (text && *text && chdir(text) != 0) {
    snprintf(said, sizeof said, "there is no folder %.300s: ranks start in the home folder", text);
    part_refuse(NULL, said);
  }
  free(text);
  for (int s = 0; s < settings; s++)
    if (!(text = word_read()) || putenv(text) != 0) return part_refuse(text, unread);
  job->program = calloc((size_t)arguments + 1, sizeof *job->program);
  for (int a = 0; a < arguments && job->program; a++)
    if (!(job->program[a] = word_read())) return part_refuse(NULL, unread);
  return job->program != NULL;
}
