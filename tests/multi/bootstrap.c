/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as processes and as threads meet through the rendezvous and gather exactly. */
#include "bootstrap_ranks.h"

#include <pthread.h>
#include <sys/syscall.h>

static void run_all(struct job *job, rank_fn run)
{
  pid_t pids[RANKS_MOST];
  for (int r = 0; r < job->nranks; r++) pids[r] = rank_spawn(job, r, run);
  for (int r = 0; r < job->nranks; r++) rank_reap(pids[r]);
  for (int r = 0; r < job->nranks; r++) job_expect(job, r, tuttiSuccess, NULL);
}

static void processes_gather_exactly(void **state)
{
  (void)state;
  for (int n = 1; n <= 8; n++) {
    struct job *job = job_make(n);
    job->rounds = 9;
    run_all(job, rank_and_linger);
    munmap(job, sizeof *job);
  }
}

/* ---- ranks as threads --------------------------------------------------------------------------- */

struct worker {
  pthread_t thread;
  struct job *job;
  int rank;
};

static void *worker_main(void *argument)
{
  struct worker *worker = argument;
  struct member m;
  member_prepare(&m, worker->job, worker->rank);
  tuttiResult_t result = member_meet(&m);
  outcome_set(worker->job, worker->rank, result);
  tt_rendezvous_destroy(m.rendezvous);
  return NULL;
}

static void threads_meet(struct job *job)
{
  struct worker workers[RANKS_MOST];
  atomic_store(&job->id_ready, 0);
  id_publish(job);
  for (int r = 0; r < job->nranks; r++) {
    workers[r].job = job;
    workers[r].rank = r;
    if (pthread_create(&workers[r].thread, NULL, worker_main, &workers[r]) != 0) _exit(97);
  }
  for (int r = 0; r < job->nranks; r++) pthread_join(workers[r].thread, NULL);
  for (int r = 0; r < job->nranks; r++)
    if (job->outcomes[r].code != tuttiSuccess) _exit(98);
}

static void thread_process(struct job *job, int rank)
{
  (void)rank;
  threads_meet(job);
  root_linger();
}

static void threads_gather_exactly(void **state)
{
  (void)state;
  static const int sizes[] = {2, 16, 64};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    struct job *job = job_make(sizes[i]);
    uint64_t began = tt_now_ns();
    rank_reap(rank_spawn(job, 0, thread_process));
    print_message("%d ranks as threads, 3 rounds: %.1f ms\n", sizes[i], (double)(tt_now_ns() - began) / 1e6);
    munmap(job, sizeof *job);
  }
}

/* The service thread ends only when every root has freed itself. */
static void many_communicators(struct job *job, int rank)
{
  (void)rank;
  int before = folder_count("/proc/self/fd");
  job->rounds = 1;
  for (int i = 0; i < 300; i++) threads_meet(job);
  root_linger();
  if (folder_count("/proc/self/fd") != before) _exit(99);
}

static void communicators_leave_no_root_thread_or_descriptor(void **state)
{
  (void)state;
  struct job *job = job_make(2);
  rank_reap(rank_spawn(job, 0, many_communicators));
  munmap(job, sizeof *job);
}

/* ---- who hears first ---- */

enum { MEMBERS = 16, PEER_INFO = 1000 };

static _Atomic int is_slow;

/* Instead of the C library's: while it is slow, the root takes its time between one rank and the next. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  if (is_slow) usleep(1000);
  return syscall(SYS_sendmsg, fd, message, flags);
}

/* All ranks in this thread, the root's own one the last to come: of those that are told, it is told early. */
static void members_come(struct member members[MEMBERS], struct job *job, uint8_t all[][2 * MEMBERS * PEER_INFO],
                         size_t odd)
{
  static const uint8_t mine[2 * PEER_INFO];
  id_publish(job);
  for (int k = 1; k <= MEMBERS; k++) {
    struct member *m = &members[k % MEMBERS];
    member_prepare(m, job, k % MEMBERS);
    if (member_start(m) != tuttiSuccess || member_wait(m) != tuttiSuccess) _exit(81);
  }
  for (int r = 0; r < MEMBERS; r++) {
    size_t len = r == MEMBERS - 1 ? odd : PEER_INFO;
    if (tt_rendezvous_gather(members[r].rendezvous, mine, len, all[r]) != tuttiSuccess) _exit(82);
  }
}

/* Rank 0 looks until it knows `result`, which all others learn; 1 if that had come to them before. */
static int others_know(struct job *job, size_t odd, tuttiResult_t result)
{
  static uint8_t all[MEMBERS][2 * MEMBERS * PEER_INFO];
  struct member members[MEMBERS];
  int before = 1;
  members_come(members, job, all, odd);
  for (int r = MEMBERS - 1; r > 0; r--) tt_rendezvous_poll(members[r].rendezvous); /* gives the peer info */
  is_slow = 1;
  while (tt_rendezvous_poll(members[0].rendezvous) == tuttiInProgress) continue;
  before &= tt_rendezvous_poll(members[MEMBERS - 1].rendezvous) == result; /* the last peer info */
  before &= tt_rendezvous_poll(members[1].rendezvous) == result;           /* the last to be told of an end */
  is_slow = 0;
  for (int r = 0; r < MEMBERS; r++)
    if (member_wait(&members[r]) != result) _exit(83);
  for (int r = 0; r < MEMBERS; r++) tt_rendezvous_destroy(members[r].rendezvous);
  root_linger();
  return before;
}

/* The kernel may be late with what was sent, but seldom is. */
static void a_round_and_an_end(struct job *job, int rank)
{
  int before[2] = {0, 0};
  (void)rank;
  for (int k = 0; k < 8; k++) {
    atomic_store(&job->id_ready, 0);
    before[k % 2] += others_know(job, k % 2 ? PEER_INFO + 1 : PEER_INFO, k % 2 ? tuttiInvalidUsage : tuttiSuccess);
  }
  if (before[0] < 3 || before[1] < 3) _exit(84);
}

/* Its process may end then, and the root with it. */
static void the_roots_process_hears_when_the_others_were_told(void **state)
{
  (void)state;
  struct job *job = job_make(MEMBERS);
  rank_reap(rank_spawn(job, 0, a_round_and_an_end));
  munmap(job, sizeof *job);
}

/* ---- a root that lacks memory ---- */

static void comes_again(struct job *job, int rank)
{
  struct member m;
  id_publish(job);
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess) _exit(85);
  tt_alloc_fail_at(1); /* the next one is the root's, for its client */
  if (member_wait(&m) != tuttiSuccess) _exit(86);
  if (atomic_load(&tt_process.alloc_countdown) > 0) _exit(87);
  tt_rendezvous_destroy(m.rendezvous);
  root_linger();
}

static void a_rank_that_the_root_has_no_memory_for_comes_again(void **state)
{
  (void)state;
  struct job *job = job_make(1);
  rank_reap(rank_spawn(job, 0, comes_again));
  munmap(job, sizeof *job);
}

/* ---- fixed addresses and launchers ------------------------------------------------------------------ */

static void fixed_one_after_the_other(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  settings_get(&settings);
  tuttiUniqueId own;
  if (tt_id_create(&id, &settings) != tuttiSuccess) _exit(91);
  tt_id_pack(&id, &own);
  for (int i = 0; i < 10; i++) {
    struct job mine = {.nranks = job->nranks, .rounds = 2, .id_ready = 1, .id = own};
    struct member m;
    member_prepare(&m, &mine, rank);
    tuttiResult_t result = member_meet(&m);
    tt_rendezvous_destroy(m.rendezvous);
    outcome_set(job, rank, result);
    if (result != tuttiSuccess) break;
  }
  if (rank == 0) root_linger();
}

static void a_fixed_address_serves_communicators_one_after_the_other(void **state)
{
  (void)state;
  char text[64];
  snprintf(text, sizeof text, "localhost:%d", port_free("127.0.0.1"));
  setenv("TUTTI_COMM_ID", text, 1);
  struct job *job = job_make(4);
  run_all(job, fixed_one_after_the_other);
  unsetenv("TUTTI_COMM_ID");
  munmap(job, sizeof *job);
}

static void by_launch(struct job *job, int rank)
{
  tuttiLaunch_t launch, again;
  if (tt_launch_get(&launch) != tuttiSuccess) _exit(93);
  if (tt_launch_get(&again) != tuttiSuccess || memcmp(&again, &launch, sizeof again) != 0) _exit(94);
  if (launch.proc != rank || launch.nprocs != job->nranks) _exit(95);
  struct job mine = {.nranks = launch.nprocs, .rounds = 3, .id_ready = 1, .id = launch.id};
  struct member m;
  member_prepare(&m, &mine, rank);
  outcome_set(job, rank, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
  if (rank == 0) root_linger();
}

static void by_torchrun(struct job *job, int rank)
{
  char text[16];
  snprintf(text, sizeof text, "%d", rank);
  setenv("RANK", text, 1);
  setenv("LOCAL_RANK", text, 1);
  by_launch(job, rank);
}

static void torchrun_variables_are_enough(void **state)
{
  (void)state;
  char port[16];
  snprintf(port, sizeof port, "%d", port_free("127.0.0.1") - 1);
  setenv("MASTER_ADDR", "127.0.0.1", 1);
  setenv("MASTER_PORT", port, 1);
  setenv("WORLD_SIZE", "3", 1);
  setenv("LOCAL_WORLD_SIZE", "3", 1);
  struct job *job = job_make(3);
  run_all(job, by_torchrun);
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
  unsetenv("WORLD_SIZE");
  unsetenv("LOCAL_WORLD_SIZE");
  munmap(job, sizeof *job);
}

/* As `tutti run` does: the id is made in a process that is no rank, and inherited. */
static void by_descriptor(struct job *job, int rank)
{
  char text[16];
  snprintf(text, sizeof text, "%d", rank);
  setenv("TUTTI_LAUNCH_PROC", text, 1);
  setenv("TUTTI_LAUNCH_LOCAL_PROC", text, 1);
  by_launch(job, rank);
}

static void id_maker(struct job *job, int rank)
{
  (void)rank;
  id_publish(job);
  root_linger();
}

static void an_inherited_descriptor_is_enough(void **state)
{
  (void)state;
  char text[16];
  int fd;
  struct job *job = job_make(3);
  pid_t maker = rank_spawn(job, 0, id_maker);
  await(&job->id_ready, 1);
  assert_int_equal(tt_launch_id_fd(&job->id, &fd), tuttiSuccess);
  snprintf(text, sizeof text, "%d", fd);
  setenv("TUTTI_LAUNCH_FD", text, 1);
  setenv("TUTTI_LAUNCH_NPROCS", "3", 1);
  setenv("TUTTI_LAUNCH_LOCAL_NPROCS", "3", 1);
  run_all(job, by_descriptor);
  rank_reap(maker);
  unsetenv("TUTTI_LAUNCH_FD");
  unsetenv("TUTTI_LAUNCH_NPROCS");
  unsetenv("TUTTI_LAUNCH_LOCAL_NPROCS");
  close(fd);
  munmap(job, sizeof *job);
}

static void a_key_file_is_mixed_into_the_key(void **state)
{
  (void)state;
  char path[] = "/tmp/tutti-key-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "0123456789abcdef0123456789abcdef", 32), 32);
  close(fd);
  setenv("TUTTI_KEY_FILE", path, 1);
  struct job *job = job_make(3);
  run_all(job, rank_and_linger);
  unsetenv("TUTTI_KEY_FILE");
  unlink(path);
  munmap(job, sizeof *job);
}

int main(void)
{
  alarm(240);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(processes_gather_exactly),
      cmocka_unit_test(threads_gather_exactly),
      cmocka_unit_test(communicators_leave_no_root_thread_or_descriptor),
      cmocka_unit_test(the_roots_process_hears_when_the_others_were_told),
      cmocka_unit_test(a_rank_that_the_root_has_no_memory_for_comes_again),
      cmocka_unit_test(a_fixed_address_serves_communicators_one_after_the_other),
      cmocka_unit_test(torchrun_variables_are_enough),
      cmocka_unit_test(an_inherited_descriptor_is_enough),
      cmocka_unit_test(a_key_file_is_mixed_into_the_key),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
