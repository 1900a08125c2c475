/* SPDX-License-Identifier: BSD-3-Clause */
/* What `tutti run -H` reads: the list of hosts, and what two of these on different hosts tell each other. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "run.h"

/* Refusals are written to stderr, which nobody reads here. */
static FILE *silence_begin(void)
{
  static FILE *nobody;
  FILE *kept = stderr;
  if (!nobody) nobody = fopen("/dev/null", "w");
  FUZZ_CHECK(nobody);
  stderr = nobody;
  return kept;
}

static void hosts_run(const uint8_t *bytes, size_t len)
{
  struct job job = {0};
  if (!len) return;
  char *text = fuzz_text(bytes + 1, len - 1);
  FILE *kept = silence_begin();
  int is_read = hosts_read(&job, text, bytes[0]);
  stderr = kept;
  if (is_read) {
    int sum = 0;
    FUZZ_CHECK(job.nhosts > 0 && job.nhosts <= HOSTS_MOST && job.total > 0 && job.total <= MAX_RANKS);
    for (int h = 0; h < job.nhosts; h++) {
      FUZZ_CHECK(job.hosts[h].ranks > 0 && *job.hosts[h].name && *job.hosts[h].name != '-');
      sum += job.hosts[h].ranks;
    }
    FUZZ_CHECK(sum == job.total);
  }
  free(job.hosts);
  free(job.host_list);
  free(text);
}

static const char *const hosts_texts[] = {
    "\x04" "node-a,node-b", "\x01" "node-a:4,[2001:db8::1]:2", "\x02" "::1,10.0.0.1", "\x07" "a:1,b:1,c:5", NULL};

/* ---- what the part on a host is told ---- */

static char *given[64]; /* to the environment */
static int ngiven;

/* Instead of the C library's: the environment and the folder stay. */
int putenv(char *text)
{
  if (ngiven == 64) return -1;
  given[ngiven++] = text;
  return 0;
}

int chdir(const char *path)
{
  return strlen(path) % 2 ? -1 : 0;
}

static void part_run(const uint8_t *bytes, size_t len)
{
  struct job job = {0};
  int kept = dup(STDIN_FILENO), in = memfd_create("fuzz", MFD_CLOEXEC);
  FUZZ_CHECK(in >= 0 && write(in, bytes, len) == (ssize_t)len && lseek(in, 0, SEEK_SET) == 0);
  FUZZ_CHECK(dup2(in, STDIN_FILENO) == STDIN_FILENO);
  FILE *said = silence_begin();
  int is_read = part_read(&job);
  stderr = said;
  if (kept >= 0) dup2(kept, STDIN_FILENO);
  else close(STDIN_FILENO);
  if (kept >= 0) close(kept);
  close(in);
  if (is_read) {
    FUZZ_CHECK(job.nprocs > 0 && job.nprocs <= MAX_RANKS && job.first >= 0 && job.first <= job.total - job.nprocs);
    FUZZ_CHECK(job.program && job.program[0] && memchr(job.master.host, 0, sizeof job.master.host));
  }
  for (int a = 0; job.program && job.program[a]; a++) free(job.program[a]);
  free(job.program);
  while (ngiven) free(given[--ngiven]);
}

static size_t part_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  char digits[2 * TUTTI_UNIQUE_ID_BYTES + 1];
  if (number > 2) return 0;
  memset(digits, 'a' + number, sizeof digits - 1);
  digits[sizeof digits - 1] = 0;
  int n = snprintf((char *)bytes, FUZZ_BYTES, "tutti run --part%c%d%c%d 2 4 1 0 0 5000 29500 1 2%c%s%cnode-a%c/work%c"
                   "TUTTI_DEBUG=INFO%cprogram%cargument%c", 0, TUTTI_VERSION_CODE - (number == 2), 0, number, 0, digits,
                   0, 0, 0, 0, 0, 0);
  return (size_t)n;
}

static void ended_run(const uint8_t *bytes, size_t len)
{
  int proc, pid, status;
  char *line = fuzz_text(bytes, len);
  (void)part_heard(line, len, &proc, &pid, &status);
  free(line);
}

static const char *const ended_texts[] = {"\1" "3 4711 256", "\1" "0 1 0", "a line", NULL};

const struct fuzz_target fuzz_runs[] = {
    {"hosts", hosts_run, hosts_texts, NULL, 0},
    {"part", part_run, NULL, part_make, 4},
    {"ended", ended_run, ended_texts, NULL, 0},
    {NULL, NULL, NULL, NULL, 0},
};
