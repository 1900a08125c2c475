/* SPDX-License-Identifier: BSD-3-Clause */
/* A fixed loopback address without a key file: only processes of one user meet there, whatever that user's folders are
 * like. Other users neither get in nor get the ranks to come to them. */
#include "../multi/bootstrap_ranks.h"

#include <sched.h>
#include <sys/stat.h>

#include "net/private.h"
#include "tutti.h"

#define OTHER_USER 65534

static char address[64]; /* of the test that runs */

static void address_choose(const char *host)
{
  snprintf(address, sizeof address, "%s:%d", host, port_free("127.0.0.1"));
  setenv("TUTTI_COMM_ID", address, 1);
}

/* Until rank 0 listens at a name that ends in the port. */
static void address_await(void)
{
  char line[256], end[32];
  snprintf(end, sizeof end, "%s\n", strrchr(address, ':'));
  for (int is_there = 0; !is_there; usleep(1000)) {
    FILE *file = fopen("/proc/net/unix", "r");
    while (file && !is_there && fgets(line, sizeof line, file)) is_there = strstr(line, "@tutti-") && strstr(line, end);
    if (file) fclose(file);
  }
}

static int is_root(void)
{
  if (geteuid() == 0) return 1;
  print_message("skipped: only root can become another user\n");
  return 0;
}

/* Joins as `rank`, sums and gets a broadcast of rank 0; what came of it goes to the rank's slot. */
static void join(struct job *job, int rank, int slot)
{
  tuttiUniqueId id;
  tuttiComm_t comm;
  int32_t sum = 1 << rank, word = rank == 0 ? 4711 : 0;
  tuttiResult_t result = tuttiGetUniqueId(&id);
  if (result == tuttiSuccess) result = tuttiCommInitRank(&comm, job->nranks, id, rank);
  outcome_set(job, slot, result);
  if (result != tuttiSuccess) return;
  if (tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) != tuttiSuccess) _exit(60);
  if (tuttiBroadcast(&word, &word, 1, tuttiInt32, 0, comm, NULL) != tuttiSuccess) _exit(61);
  if (sum != (1 << job->nranks) - 1 || word != 4711) _exit(62);
  if (tuttiCommDestroy(comm) != tuttiSuccess) _exit(63);
}

static void own_rank(struct job *job, int rank)
{
  join(job, rank, rank);
}

/* As a rank of another host: ranks of one share memory, which is the user's alone. */
static void become_other(void)
{
  setenv("TUTTI_HOSTID", "elsewhere", 1);
  if (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0) _exit(64);
}

/* ---- who wants to get in ---- */

static void other_rank_1(struct job *job, int rank)
{
  (void)rank;
  become_other();
  setenv("TUTTI_INIT_TIMEOUT_MS", "2000", 1);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 1);
  join(job, 1, 5);
}

/* Knows what there is to know, and does not care who listens. */
static void other_knocks(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  struct tt_dialer *dialer;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = 1};
  int fd = -1;
  (void)rank;
  become_other();
  settings_get(&settings);
  if (tt_id_fixed(&id, address, &settings) != tuttiSuccess || tt_id_mix(&id, &settings) != tuttiSuccess) _exit(65);
  if (tt_dialer_start(&dialer, &id.root, &id.credentials, &hello, tt_now_ns() + 2000u * (uint64_t)MS) != tuttiSuccess)
    _exit(66);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) usleep(200);
  outcome_set(job, 6, result);
}

static void another_user_does_not_get_in(void **state)
{
  (void)state;
  static const char *const hosts[] = {"localhost", "[::1]"};
  if (!is_root()) skip();
  for (int i = 0; i < 2; i++) {
    struct job *job = job_make(2);
    pid_t pids[2];
    address_choose(hosts[i]);
    pids[0] = rank_spawn(job, 0, own_rank);
    address_await();
    pid_t other = rank_spawn(job, 1, other_rank_1), knocks = rank_spawn(job, 1, other_knocks);
    rank_reap(other);
    rank_reap(knocks);
    job_expect(job, 5, tuttiRemoteError, "of uid 0 listens there, not one of uid 65534");
    job_expect(job, 6, tuttiRemoteError, "before it said anything");
    assert_int_equal(job->outcomes[0].done, 0);
    pids[1] = rank_spawn(job, 1, own_rank);
    for (int r = 0; r < 2; r++) rank_reap(pids[r]);
    for (int r = 0; r < 2; r++) job_expect(job, r, tuttiSuccess, NULL);
    munmap(job, sizeof *job);
  }
}

/* ---- who is there first ---- */

static void squatter(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  struct tt_address at;
  (void)rank;
  become_other();
  settings_get(&settings);
  if (tt_id_fixed(&id, address, &settings) != tuttiSuccess || tt_id_mix(&id, &settings) != tuttiSuccess) _exit(67);
  struct tt_listener *listener;
  at = id.root;
  if (tt_listener_open(&listener, &at) != tuttiSuccess) _exit(68);
  atomic_store(&job->signal, 1);
  await(&job->signal, 2);
}

static void hasty_rank(struct job *job, int rank)
{
  setenv("TUTTI_INIT_TIMEOUT_MS", "1500", 1);
  join(job, rank, rank);
}

static void another_user_who_is_there_first_is_told_of_and_not_spoken_to(void **state)
{
  (void)state;
  if (!is_root()) skip();
  struct job *job = job_make(2);
  pid_t pids[2];
  address_choose("127.0.0.1");
  pid_t other = rank_spawn(job, 0, squatter);
  await(&job->signal, 1);
  for (int r = 0; r < 2; r++) pids[r] = rank_spawn(job, r, hasty_rank);
  for (int r = 0; r < 2; r++) rank_reap(pids[r]);
  char who[64];
  snprintf(who, sizeof who, "process %d of uid 65534", (int)other);
  job_expect(job, 0, tuttiSystemError, who);
  job_expect(job, 0, tuttiSystemError, "TUTTI_KEY_FILE");
  job_expect(job, 1, tuttiRemoteError, who);
  job_expect(job, 1, tuttiRemoteError, "TUTTI_KEY_FILE");
  /* Nothing is lost when it goes. */
  pids[1] = rank_spawn(job, 1, own_rank);
  usleep(50000);
  atomic_store(&job->signal, 2);
  rank_reap(other);
  pids[0] = rank_spawn(job, 0, own_rank);
  for (int r = 0; r < 2; r++) rank_reap(pids[r]);
  for (int r = 0; r < 2; r++) job_expect(job, r, tuttiSuccess, NULL);
  munmap(job, sizeof *job);
}

/* ---- a user's own job ---- */

static void jobs_meet(int nranks, rank_fn run)
{
  struct job *job = job_make(nranks);
  pid_t pids[RANKS_MOST];
  for (int r = 0; r < nranks; r++) pids[r] = rank_spawn(job, r, run);
  for (int r = 0; r < nranks; r++) rank_reap(pids[r]);
  for (int r = 0; r < nranks; r++) job_expect(job, r, tuttiSuccess, NULL);
  munmap(job, sizeof *job);
}

static void nobodys_rank(struct job *job, int rank)
{
  if (geteuid() == 0) become_other();
  unsetenv("TUTTI_HOSTID");
  join(job, rank, rank);
}

/* No two ranks are in the same folder, have the same home, or may write there. */
static void homeless_rank(struct job *job, int rank)
{
  static const char *const folders[] = {"/", "/proc", "/tmp", "/usr"}, *const homes[] = {"/proc", "/nowhere", "/"};
  if (chdir(folders[rank % 4]) != 0) _exit(69);
  if (rank % 4 == 0) unsetenv("HOME");
  else setenv("HOME", homes[rank % 4 - 1], 1);
  unsetenv("XDG_RUNTIME_DIR");
  unsetenv("XDG_CACHE_HOME");
  nobodys_rank(job, rank);
}

static void torchrun_rank(struct job *job, int rank)
{
  tuttiLaunch_t launch;
  tuttiComm_t comm;
  char text[16];
  int32_t sum = 1;
  snprintf(text, sizeof text, "%d", rank);
  setenv("RANK", text, 1);
  setenv("LOCAL_RANK", text, 1);
  if (tuttiGetLaunch(&launch) != tuttiSuccess || strcmp(launch.launcher, "torchrun") != 0) _exit(70);
  tuttiResult_t result = tuttiCommInitRank(&comm, launch.nprocs, launch.id, launch.proc);
  outcome_set(job, rank, result);
  if (result != tuttiSuccess) return;
  if (tuttiAllReduce(&sum, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) != tuttiSuccess || sum != 3) _exit(71);
  if (tuttiCommDestroy(comm) != tuttiSuccess) _exit(72);
}

static void a_users_own_job_needs_no_folder_and_no_secret(void **state)
{
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "localhost", "[::1]"};
  for (int i = 0; i < 3; i++) {
    address_choose(hosts[i]);
    jobs_meet(4, homeless_rank);
  }
}

static void a_job_of_torchrun_needs_no_secret(void **state)
{
  (void)state;
  static const char *const hosts[] = {"127.0.0.1", "localhost", "::1"};
  char text[16];
  unsetenv("TUTTI_COMM_ID");
  setenv("WORLD_SIZE", "3", 1);
  setenv("LOCAL_WORLD_SIZE", "3", 1);
  for (int i = 0; i < 3; i++) {
    snprintf(text, sizeof text, "%d", port_free("127.0.0.1"));
    setenv("MASTER_ADDR", hosts[i], 1);
    setenv("MASTER_PORT", text, 1);
    jobs_meet(3, torchrun_rank);
  }
  unsetenv("WORLD_SIZE");
  unsetenv("LOCAL_WORLD_SIZE");
  unsetenv("MASTER_ADDR");
  unsetenv("MASTER_PORT");
}

/* ---- what the user says, and what the kernel cannot tell ---- */

static void of_two_users(struct job *job, int rank)
{
  if (rank == 1) become_other();
  join(job, rank, rank);
}

static void without_authentication_any_user_may_join(void **state)
{
  (void)state;
  if (!is_root()) skip();
  address_choose("127.0.0.1");
  setenv("TUTTI_AUTH", "none", 1);
  jobs_meet(2, of_two_users);
  unsetenv("TUTTI_AUTH");
}

static int is_ours(void)
{
  char who[96];
  int fd[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fd) != 0) _exit(73);
  int ours = tt_user_is_ours(fd[0], who, sizeof who);
  close(fd[0]);
  close(fd[1]);
  return ours;
}

/* Every user that is not mapped into a user namespace looks like 65534 there, and so do we. */
static void in_an_unmapped_namespace(struct job *job, int rank)
{
  (void)rank;
  if (geteuid() == 0) become_other();
  if (!is_ours()) _exit(74);
  if (unshare(CLONE_NEWUSER) != 0) return;
  atomic_store(&job->in, 1);
  if (is_ours()) _exit(75);
}

static void a_user_whom_the_kernel_cannot_name_is_not_ours(void **state)
{
  (void)state;
  struct job *job = job_make(1);
  rank_reap(rank_spawn(job, 0, in_an_unmapped_namespace));
  if (!atomic_load(&job->in)) print_message("user namespaces cannot be made here: the half about them is left out\n");
  munmap(job, sizeof *job);
}

int main(void)
{
  alarm(240);
  setenv("TUTTI_DEBUG", "NONE", 0);
  unsetenv("TUTTI_KEY_FILE");
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(another_user_does_not_get_in),
      cmocka_unit_test(another_user_who_is_there_first_is_told_of_and_not_spoken_to),
      cmocka_unit_test(a_users_own_job_needs_no_folder_and_no_secret),
      cmocka_unit_test(a_job_of_torchrun_needs_no_secret),
      cmocka_unit_test(without_authentication_any_user_may_join),
      cmocka_unit_test(a_user_whom_the_kernel_cannot_name_is_not_ours),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
