/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank processes that meet through src/bootstrap, and what became of each. The test process itself
 * never touches the library, so that its children may: a forked child of a user may not. */
#ifndef BOOTSTRAP_RANKS_H
#define BOOTSTRAP_RANKS_H

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/bootstrap.h"
#include "port.h"

#define MS 1000000u
#define RANKS_MOST 64

struct outcome {
  _Atomic int done;
  int code;
  uint64_t at_ns;
  pid_t pid;
  char sentence[TT_SENTENCE_BYTES];
};

/* In memory that all processes of a test share. */
struct job {
  int nranks;
  int rounds;
  _Atomic int id_ready, id_taken, signal, in;
  uint64_t killed_ns;
  tuttiUniqueId id;
  struct outcome outcomes[RANKS_MOST];
};

static inline struct job *job_make(int nranks)
{
  struct job *job = mmap(NULL, sizeof *job, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(job != MAP_FAILED);
  job->nranks = nranks;
  job->rounds = 3;
  return job;
}

static inline void await(_Atomic int *word, int value)
{
  while (atomic_load(word) < value) usleep(1000);
}

static inline void settings_get(struct tt_settings *settings)
{
  if (tt_settings_load(settings) != tuttiSuccess) _exit(90);
}

static inline int folder_count(const char *path)
{
  int n = 0;
  DIR *folder = opendir(path);
  while (folder && readdir(folder)) n++;
  closedir(folder);
  return n - 2; /* . and .. */
}

static inline int has_service_thread(void)
{
  int found = 0;
  char path[300], name[32] = "";
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(name, sizeof name, file) && strncmp(name, "tutti-service", 13) == 0) found = 1;
    fclose(file);
  }
  closedir(folder);
  return found;
}

/* Waits until there is a service thread (1) or none any more (0); a rank may be held up for long. */
static inline void service_await(int wanted)
{
  for (int i = 0; i < 60000; i++) {
    if (has_service_thread() == wanted) return;
    usleep(1000);
  }
  _exit(96);
}

/* The root lives in the service thread of the process that made the id: it must not end before the
 * others have left. That thread ends when every root has freed itself. */
static inline void root_linger(void)
{
  service_await(0);
}

/* In the process that makes the id. */
static inline void id_publish(struct job *job)
{
  struct tt_settings settings;
  struct tt_id id;
  settings_get(&settings);
  if (tt_id_create(&id, &settings) != tuttiSuccess) _exit(91);
  tt_id_pack(&id, &job->id);
  service_await(1);
  atomic_store(&job->id_ready, 1);
}

static inline void id_get(struct job *job, struct tt_id *id, const struct tt_settings *settings)
{
  await(&job->id_ready, 1);
  if (tt_id_unpack(id, &job->id) != tuttiSuccess || tt_id_mix(id, settings) != tuttiSuccess) _exit(92);
}

struct member {
  struct job *job;
  struct tt_settings settings;
  struct tt_id id;
  struct tt_rendezvous_spec spec;
  struct tt_rendezvous *rendezvous;
};

static inline void member_prepare(struct member *m, struct job *job, int rank)
{
  memset(m, 0, sizeof *m);
  m->job = job;
  settings_get(&m->settings);
  id_get(job, &m->id, &m->settings);
  m->spec = (struct tt_rendezvous_spec){.id = &m->id, .nranks = job->nranks, .rank = rank, .agreement = 7};
  m->spec.host = tt_host_id(m->settings.host_id);
  m->spec.settings = &m->settings;
}

static inline tuttiResult_t member_start(struct member *m)
{
  m->spec.limit_ns = (uint64_t)m->settings.init_timeout_ms * MS;
  return tt_rendezvous_start(&m->rendezvous, &m->spec);
}

static inline tuttiResult_t member_wait(struct member *m)
{
  tuttiResult_t result;
  while ((result = tt_rendezvous_poll(m->rendezvous)) == tuttiInProgress) usleep(200);
  return result;
}

static inline uint8_t peer_info_byte(int rank, int round, size_t i)
{
  return (uint8_t)(rank * 31 + round * 7 + (int)i);
}

/* Lengths that differ from round to round, the largest one among them. */
static inline size_t round_len(int round)
{
  static const size_t lens[] = {16, TT_PEER_INFO_BYTES, 1, 333};
  return lens[round % 4];
}

/* One round, every third one a broadcast; exits with 95 if a byte is wrong. */
static inline tuttiResult_t member_round(struct member *m, int round)
{
  int is_broadcast = round % 3 == 1;
  size_t len = round_len(round), n = is_broadcast ? 1 : (size_t)m->spec.nranks;
  uint8_t mine[TT_PEER_INFO_BYTES], *all = malloc(n * len);
  for (size_t i = 0; i < len; i++) mine[i] = peer_info_byte(m->spec.rank, round, i);
  tuttiResult_t result = is_broadcast ? tt_rendezvous_broadcast(m->rendezvous, m->spec.rank ? NULL : mine, len, all)
                                      : tt_rendezvous_gather(m->rendezvous, mine, len, all);
  if (result == tuttiSuccess) result = member_wait(m);
  for (size_t k = 0; result == tuttiSuccess && k < n * len; k++)
    if (all[k] != peer_info_byte((int)(k / len), round, k % len)) _exit(95);
  free(all);
  return result;
}

static inline tuttiResult_t member_meet(struct member *m)
{
  tuttiResult_t result = member_start(m);
  for (int round = 0; result == tuttiSuccess && round < m->job->rounds; round++)
    result = member_round(m, round);
  return result;
}

static inline void outcome_set(struct job *job, int slot, tuttiResult_t code)
{
  struct outcome *outcome = &job->outcomes[slot];
  outcome->code = (int)code;
  outcome->at_ns = tt_now_ns();
  outcome->pid = getpid();
  snprintf(outcome->sentence, sizeof outcome->sentence, "%s", tt_last_sentence());
  atomic_store(&outcome->done, 1);
}

/* The usual rank: id from rank 0, all rounds, in good order. */
static inline void rank_usual(struct job *job, int rank)
{
  struct member m;
  if (rank == 0 && !atomic_load(&job->id_ready)) id_publish(job);
  member_prepare(&m, job, rank);
  tuttiResult_t result = member_meet(&m);
  outcome_set(job, rank, result);
  tt_rendezvous_destroy(m.rendezvous);
}

/* The same; rank 0 stays until its root has freed itself, that is until all have left or have heard
 * of a failure. */
static inline void rank_and_linger(struct job *job, int rank)
{
  rank_usual(job, rank);
  if (rank == 0) root_linger();
}

typedef void (*rank_fn)(struct job *job, int rank);

static inline pid_t rank_spawn(struct job *job, int rank, rank_fn run)
{
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid) return pid;
  alarm(120);
  run(job, rank);
  exit(0);
}

/* Waits for a child and checks that it ended with exit status 0. */
static inline void rank_reap(pid_t pid)
{
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    fail_msg("rank process %d ended with status 0x%x", (int)pid, status);
}

static inline void job_expect(const struct job *job, int rank, tuttiResult_t code, const char *part)
{
  const struct outcome *outcome = &job->outcomes[rank];
  if (!outcome->done) fail_msg("rank %d has no outcome", rank);
  if (outcome->code != (int)code || (part && !strstr(outcome->sentence, part)))
    fail_msg("rank %d: code %d, \"%s\"; expected %d and \"%s\"", rank, outcome->code, outcome->sentence,
             (int)code, part ? part : "");
}

#endif
