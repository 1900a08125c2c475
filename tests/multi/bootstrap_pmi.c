/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks find each other through PMI-1: a launcher of this test's own, with each limit and fault that one may have. */
#include "bootstrap_ranks.h"

#include <poll.h>
#include <sys/socket.h>

enum { RANKS = 4, STORE_MOST = 512 };

enum fault { NONE, ENDS_AT_BARRIER, IS_SILENT, LOSES_VALUES, BABBLES, OF_PMI_2 };

/* The launcher: as much of PMI-1 as a process may ask for before it is finalized, and nothing twice. */
struct launcher {
  enum fault fault;
  int value_max;
  int fds[RANKS], asked[RANKS]; /* asked: place in the order of questions */
  int in_barrier, ended, wrong;
  int stored;
  char keys[STORE_MOST][64], values[STORE_MOST][1024];
};

static void say(int fd, const char *line)
{
  if (send(fd, line, strlen(line), MSG_NOSIGNAL) < 0) return; /* a rank that has given up */
}

static void stored_say(const struct launcher *l, int fd, const char *key)
{
  char line[1200];
  int at = 0;
  while (at < l->stored && strcmp(l->keys[at], key) != 0) at++;
  int is_there = at < l->stored && l->fault != LOSES_VALUES;
  /* Slurm and Hydra have their fields in unlike orders. */
  if (is_there) snprintf(line, sizeof line, "cmd=get_result value=%s rc=0 msg=success\n", l->values[at]);
  else snprintf(line, sizeof line, "cmd=get_result rc=-1 msg=key_not_found value=unknown\n");
  say(fd, line);
}

static void barrier_enter(struct launcher *l)
{
  if (++l->in_barrier < RANKS) return;
  for (int r = 0; r < RANKS; r++)
    if (l->fault == ENDS_AT_BARRIER) shutdown(l->fds[r], SHUT_RDWR);
    else say(l->fds[r], "cmd=barrier_out rc=0\n");
}

/* The n-th question must be of the n-th kind, or of the one before again where several are usual. */
static void order_check(struct launcher *l, int rank, const char *command)
{
  static const char *const order[] = {"init", "get_maxes", "get_my_kvsname", "put", "barrier_in", "get", "finalize"};
  int at = l->asked[rank];
  while (at < 7 && strcmp(order[at], command) != 0) at++;
  l->wrong += at == 7 || (rank == 0 && at == 5) || (rank != 0 && at == 3);
  l->asked[rank] = at;
}

static void put_take(struct launcher *l, int fd, const char *line)
{
  char store[64];
  char *key = l->keys[l->stored], *value = l->values[l->stored];
  int n = sscanf(line, "cmd=put kvsname=%63s key=%63s value=%1023s", store, key, value);
  l->wrong += n != 3 || strcmp(store, "kvs_7_0") != 0 || (int)strlen(value) >= l->value_max;
  l->stored++;
  say(fd, "cmd=put_result rc=0 msg=success\n");
}

static void answer(struct launcher *l, int rank, char *line)
{
  char command[32] = "", key[64] = "", maxes[100];
  int fd = l->fds[rank];
  sscanf(line, "cmd=%31s", command);
  order_check(l, rank, command);
  snprintf(maxes, sizeof maxes, "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=%d\n", l->value_max);
  if (l->fault == IS_SILENT) return;
  if (l->fault == BABBLES) {
    for (int k = 0; k < 100; k++) say(fd, "cmd=response_to_init\trc=0 ");
  } else if (strcmp(command, "init") == 0) {
    say(fd, l->fault == OF_PMI_2 ? "cmd=response_to_init rc=-1 pmi_version=2 pmi_subversion=0\n"
                                 : "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
  } else if (strcmp(command, "get_maxes") == 0) say(fd, maxes);
  else if (strcmp(command, "get_my_kvsname") == 0) say(fd, "cmd=my_kvsname kvsname=kvs_7_0\n");
  else if (strcmp(command, "put") == 0) put_take(l, fd, line);
  else if (strcmp(command, "barrier_in") == 0) barrier_enter(l);
  else if (sscanf(line, "cmd=get kvsname=kvs_7_0 key=%63s", key) == 1) stored_say(l, fd, key);
  else if (strcmp(command, "finalize") == 0) say(fd, "cmd=finalize_ack\n");
}

/* One question at a time is under way on each descriptor, and short: it comes in one piece. */
static void serve(struct launcher *l)
{
  char line[2048];
  while (l->ended < RANKS) {
    struct pollfd polls[RANKS];
    for (int r = 0; r < RANKS; r++) polls[r] = (struct pollfd){.fd = l->fds[r], .events = POLLIN};
    poll(polls, RANKS, 1000);
    for (int r = 0; r < RANKS; r++) {
      if (!polls[r].revents) continue;
      ssize_t n = recv(l->fds[r], line, sizeof line - 1, 0);
      if (n > 0) {
        line[n] = 0;
        l->wrong += line[n - 1] != '\n';
        answer(l, r, line);
        continue;
      }
      close(l->fds[r]);
      l->fds[r] = -1;
      l->ended++;
    }
  }
}

static void by_pmi(struct job *job, int rank)
{
  char text[16];
  snprintf(text, sizeof text, "%d", rank);
  setenv("PMI_RANK", text, 1);
  setenv("MPI_LOCALRANKID", text, 1);
  tuttiLaunch_t launch;
  tuttiResult_t result = tt_launch_get(&launch);
  if (result == tuttiSuccess) {
    if (strcmp(launch.launcher, "pmi") != 0 || launch.proc != rank || launch.nprocs != RANKS) _exit(93);
    if (launch.local_proc != rank || launch.local_nprocs != RANKS) _exit(94);
    struct job mine = {.nranks = RANKS, .rounds = 3, .id_ready = 1, .id = launch.id};
    struct member m;
    member_prepare(&m, &mine, rank);
    result = member_meet(&m);
    tt_rendezvous_destroy(m.rendezvous);
  }
  outcome_set(job, rank, result);
  if (rank == 0 && result == tuttiSuccess) root_linger();
}

static void rank_0_lacks_a_network(struct job *job, int rank)
{
  if (rank == 0) setenv("TUTTI_SOCKET_IFNAME", "=nowhere", 1);
  by_pmi(job, rank);
}

static struct job *launch(struct launcher *l, rank_fn run)
{
  struct job *job = job_make(RANKS);
  pid_t pids[RANKS];
  char text[16];
  int theirs[RANKS];
  for (int r = 0; r < RANKS; r++) {
    int ends[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    l->fds[r] = ends[0];
    theirs[r] = ends[1];
  }
  for (int r = 0; r < RANKS; r++) {
    snprintf(text, sizeof text, "%d", theirs[r]);
    setenv("PMI_FD", text, 1);
    fflush(NULL);
    pids[r] = fork();
    assert_true(pids[r] >= 0);
    if (pids[r]) continue;
    for (int other = 0; other < RANKS; other++) { /* so that the end of one is seen */
      close(l->fds[other]);
      if (other != r) close(theirs[other]);
    }
    alarm(60);
    run(job, r);
    exit(0);
  }
  for (int r = 0; r < RANKS; r++) close(theirs[r]);
  serve(l);
  for (int r = 0; r < RANKS; r++) rank_reap(pids[r]);
  unsetenv("PMI_FD");
  return job;
}

static void ranks_meet_through_a_store_of_any_width(void **state)
{
  (void)state;
  static const int widths[] = {1024, 100, 2};
  for (int w = 0; w < 3; w++) {
    static struct launcher l;
    l = (struct launcher){.value_max = widths[w]};
    struct job *job = launch(&l, by_pmi);
    for (int r = 0; r < RANKS; r++) job_expect(job, r, tuttiSuccess, NULL);
    assert_int_equal(l.wrong, 0);
    for (int r = 0; r < RANKS; r++) assert_int_equal(l.asked[r], 6); /* finalized */
    munmap(job, sizeof *job);
  }
}

static void what_process_0_lacks_is_told_to_all(void **state)
{
  (void)state;
  static struct launcher l = {.value_max = 1024};
  struct job *job = launch(&l, rank_0_lacks_a_network);
  for (int r = 0; r < RANKS; r++)
    job_expect(job, r, r ? tuttiRemoteError : (tuttiResult_t)job->outcomes[0].code,
               r ? "process 0 could not make" : "nowhere");
  assert_int_not_equal(job->outcomes[0].code, tuttiSuccess);
  assert_int_equal(l.wrong, 0);
  for (int r = 0; r < RANKS; r++) assert_int_equal(l.asked[r], 6);
  munmap(job, sizeof *job);
}

static void what_is_wrong_with_the_launcher_is_said(void **state)
{
  (void)state;
  static const struct {
    enum fault fault;
    const char *words;
  } faults[] = {{ENDS_AT_BARRIER, "cmd=barrier_in: PMI_FD is closed"},
                {IS_SILENT, "cmd=init pmi_version=1 pmi_subversion=1: no answer within TUTTI_INIT_TIMEOUT_MS"},
                {BABBLES, "its answer is no line of PMI-1"},
                {OF_PMI_2, "cmd=response_to_init rc=-1 pmi_version=2"}};
  setenv("TUTTI_INIT_TIMEOUT_MS", "500", 1);
  for (int f = 0; f < 4; f++) {
    static struct launcher l;
    l = (struct launcher){.value_max = 1024, .fault = faults[f].fault};
    struct job *job = launch(&l, by_pmi);
    for (int r = 0; r < RANKS; r++) job_expect(job, r, tuttiSystemError, faults[f].words);
    munmap(job, sizeof *job);
  }
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
}

static void a_lost_value_is_said(void **state)
{
  (void)state;
  static struct launcher l = {.value_max = 1024, .fault = LOSES_VALUES};
  setenv("TUTTI_INIT_TIMEOUT_MS", "500", 1); /* of rank 0, which waits for the others */
  struct job *job = launch(&l, by_pmi);
  for (int r = 1; r < RANKS; r++) job_expect(job, r, tuttiSystemError, "key_not_found");
  job_expect(job, 0, tuttiRemoteError, "ranks 1-3 of 4 did not come");
  munmap(job, sizeof *job);
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
}

int main(void)
{
  alarm(240);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("PMI_SIZE", "4", 1);
  setenv("MPI_LOCALNRANKS", "4", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_meet_through_a_store_of_any_width),
      cmocka_unit_test(what_process_0_lacks_is_told_to_all),
      cmocka_unit_test(what_is_wrong_with_the_launcher_is_said),
      cmocka_unit_test(a_lost_value_is_said),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
