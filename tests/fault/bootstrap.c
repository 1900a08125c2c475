/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up with ranks that die, are missing, contradict each other or are none of ours. */
#include "../multi/bootstrap_ranks.h"

#include <net/if.h>

#define LIMIT_NS (5000u * (uint64_t)MS) /* promised: 1 s on one host */

/* ---- what the ranks do --------------------------------------------------------------------------- */

static void hold_descriptors_in_child(void)
{
  if (fork() == 0) {
    alarm(10);
    for (;;) pause();
  }
}

static void touch_memory(void)
{
  size_t len = 512u << 20;
  char *memory = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(80);
  for (size_t i = 0; i < len; i += 4096) memory[i] = 1;
}

/* Joins, does a round, and dies in the second one. */
static void victim_run(struct job *job, int rank, void (*burden)(void))
{
  struct member m;
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_round(&m, 0) != tuttiSuccess) _exit(81);
  if (burden) burden();
  outcome_set(job, rank, tuttiSuccess);
  job->killed_ns = tt_now_ns();
  kill(getpid(), SIGKILL);
}

static void victim_plain(struct job *job, int rank) { victim_run(job, rank, NULL); }
static void victim_with_child(struct job *job, int rank) { victim_run(job, rank, hold_descriptors_in_child); }
static void victim_with_memory(struct job *job, int rank) { victim_run(job, rank, touch_memory); }

/* Is in, but dies before the first round. */
static void victim_early(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_wait(&m) != tuttiSuccess) _exit(81);
  outcome_set(job, rank, tuttiSuccess);
  job->killed_ns = tt_now_ns();
  kill(getpid(), SIGKILL);
}

static void maker_of_id(struct job *job, int slot)
{
  id_publish(job);
  outcome_set(job, slot, tuttiSuccess);
  for (;;) pause();
}

static void survivors_check(struct job *job, int victim, const char *part)
{
  for (int r = 0; r < job->nranks; r++) {
    if (r == victim) continue;
    job_expect(job, r, tuttiRemoteError, part);
    uint64_t took = job->outcomes[r].at_ns - job->killed_ns;
    print_message("rank %d knew after %.1f ms\n", r, (double)took / 1e6);
    if (took > LIMIT_NS) fail_msg("rank %d heard of the death after %.1f s", r, (double)took / 1e9);
  }
}

static void kill_one(int victim, rank_fn run)
{
  char part[64];
  int status;
  struct job *job = job_make(4);
  pid_t pids[4];
  for (int r = 0; r < 4; r++) pids[r] = rank_spawn(job, r, r == victim ? run : rank_and_linger);
  waitpid(pids[victim], &status, 0);
  assert_true(WIFSIGNALED(status));
  for (int r = 0; r < 4; r++)
    if (r != victim) rank_reap(pids[r]);
  if (victim == 0) snprintf(part, sizeof part, "root (pid %d", (int)pids[0]);
  else snprintf(part, sizeof part, "rank %d (pid %d on ", victim, (int)pids[victim]);
  survivors_check(job, victim, part);
  munmap(job, sizeof *job);
}

static void a_killed_rank_is_named_to_all_others(void **state)
{
  (void)state;
  kill_one(2, victim_plain);
}

static void a_killed_rank_is_noticed_though_its_child_holds_the_connection(void **state)
{
  (void)state;
  kill_one(2, victim_with_child);
}

static void a_killed_rank_is_noticed_though_its_memory_is_still_being_freed(void **state)
{
  (void)state;
  kill_one(1, victim_with_memory);
}

static void a_rank_killed_before_the_first_round_is_named(void **state)
{
  (void)state;
  kill_one(3, victim_early);
}

static void the_roots_death_is_an_error_on_all_ranks(void **state)
{
  (void)state;
  kill_one(0, victim_plain);
}

static void the_roots_death_is_noticed_though_its_child_holds_the_door(void **state)
{
  (void)state;
  kill_one(0, victim_with_child);
}

/* The root is not even a rank, and dies while the ranks wait for one more; its child keeps the port
 * open, so that dialling alone would wait for the whole start-up time. */
static void maker_dies(struct job *job, int rank)
{
  (void)rank;
  id_publish(job);
  await(&job->signal, 1);
  hold_descriptors_in_child();
  job->killed_ns = tt_now_ns();
  kill(getpid(), SIGKILL);
}

static void late_dialler(struct job *job, int rank)
{
  await(&job->signal, 2);
  rank_usual(job, rank);
}

static void the_roots_death_is_noticed_before_and_after_connecting(void **state)
{
  (void)state;
  int status;
  struct job *job = job_make(4);
  pid_t maker = rank_spawn(job, 0, maker_dies);
  await(&job->id_ready, 1);
  pid_t pids[3] = {rank_spawn(job, 0, rank_usual), rank_spawn(job, 1, rank_usual)};
  usleep(300000);
  atomic_store(&job->signal, 1);
  waitpid(maker, &status, 0);
  pids[2] = rank_spawn(job, 2, late_dialler);
  atomic_store(&job->signal, 2);
  for (int r = 0; r < 3; r++) rank_reap(pids[r]);
  job->nranks = 3;
  survivors_check(job, -1, "root (pid");
  munmap(job, sizeof *job);
}

/* ---- missing, twice, unlike ---------------------------------------------------------------------- */

static void missing_ranks_are_named_at_the_deadline(void **state)
{
  (void)state;
  setenv("TUTTI_INIT_TIMEOUT_MS", "1000", 1);
  struct job *job = job_make(8);
  pid_t pids[3];
  static const int there[] = {0, 1, 3};
  for (int i = 0; i < 3; i++) pids[i] = rank_spawn(job, there[i], rank_usual);
  for (int i = 0; i < 3; i++) rank_reap(pids[i]);
  for (int i = 0; i < 3; i++)
    job_expect(job, there[i], tuttiRemoteError, "ranks 2, 4-7 of 8 did not come within 1 s");
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
  munmap(job, sizeof *job);
}

/* Is in, and stays away from the first round. */
static void absent_minded(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_wait(&m) != tuttiSuccess) _exit(81);
  await(&job->signal, 1);
  outcome_set(job, rank, tt_rendezvous_poll(m.rendezvous));
  tt_rendezvous_destroy(m.rendezvous);
}

static void a_rank_that_stays_away_from_a_round_is_named_at_the_deadline(void **state)
{
  (void)state;
  setenv("TUTTI_INIT_TIMEOUT_MS", "1000", 1);
  struct job *job = job_make(3);
  pid_t pids[3];
  for (int r = 0; r < 3; r++) pids[r] = rank_spawn(job, r, r == 1 ? absent_minded : rank_usual);
  rank_reap(pids[2]);
  atomic_store(&job->signal, 1);
  rank_reap(pids[0]);
  rank_reap(pids[1]);
  for (int r = 0; r < 3; r++) job_expect(job, r, tuttiRemoteError, "rank 1 of 3 came but did not");
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
  munmap(job, sizeof *job);
}

static void after_the_second_claimant(struct job *job, int rank)
{
  atomic_fetch_add(&job->in, 1);
  await(&job->outcomes[5].done, 1);
  rank_usual(job, rank);
}

static void first_claimant(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_wait(&m) != tuttiSuccess) _exit(81);
  atomic_store(&job->signal, 1);
  tuttiResult_t result = tuttiSuccess;
  for (int round = 0; result == tuttiSuccess && round < job->rounds; round++)
    result = member_round(&m, round);
  outcome_set(job, rank, result);
  tt_rendezvous_destroy(m.rendezvous);
}

static void second_claimant(struct job *job, int rank)
{
  struct member m;
  await(&job->signal, 1);
  member_prepare(&m, job, rank);
  outcome_set(job, 5, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
}

static void the_second_claimant_of_a_rank_is_refused_and_the_rest_goes_on(void **state)
{
  (void)state;
  int status;
  struct job *job = job_make(2);
  pid_t maker = rank_spawn(job, 6, maker_of_id);
  pid_t first = rank_spawn(job, 1, first_claimant), second = rank_spawn(job, 1, second_claimant);
  pid_t other = rank_spawn(job, 0, after_the_second_claimant);
  rank_reap(first);
  rank_reap(second);
  rank_reap(other);
  job_expect(job, 0, tuttiSuccess, NULL);
  job_expect(job, 1, tuttiSuccess, NULL);
  job_expect(job, 5, tuttiInvalidUsage, "rank 1 is claimed twice");
  kill(maker, SIGKILL);
  waitpid(maker, &status, 0);
  munmap(job, sizeof *job);
}

/* Rank 0 stays until its root has freed itself, that is until all have heard of the failure. */
static void unlike_nranks_run(struct job *job, int rank)
{
  struct member m;
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  if (rank == 1) m.spec.nranks = 4;
  outcome_set(job, rank, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
  if (rank == 0) root_linger();
}

static void unlike_agreement_run(struct job *job, int rank)
{
  struct member m;
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  if (rank == 1) m.spec.agreement = 0xabcd;
  outcome_set(job, rank, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
  if (rank == 0) root_linger();
}

static void unlike_len_run(struct job *job, int rank)
{
  struct member m;
  uint8_t mine[32] = {0}, all[32 * 8];
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  tuttiResult_t result = member_start(&m);
  if (result == tuttiSuccess) result = tt_rendezvous_gather(m.rendezvous, mine, rank == 1 ? 32 : 16, all);
  if (result == tuttiSuccess) result = member_wait(&m);
  outcome_set(job, rank, result);
  tt_rendezvous_destroy(m.rendezvous);
  if (rank == 0) root_linger();
}

static void all_hear_usage(rank_fn run, const char *part, const char *value)
{
  struct job *job = job_make(3);
  pid_t pids[3];
  for (int r = 0; r < 3; r++) pids[r] = rank_spawn(job, r, run);
  for (int r = 0; r < 3; r++) rank_reap(pids[r]);
  for (int r = 0; r < 3; r++) {
    job_expect(job, r, tuttiInvalidUsage, part);
    job_expect(job, r, tuttiInvalidUsage, value);
    job_expect(job, r, tuttiInvalidUsage, "rank 1 (pid ");
  }
  munmap(job, sizeof *job);
}

static void unlike_nranks_is_an_error_on_all(void **state)
{
  (void)state;
  all_hear_usage(unlike_nranks_run, "nranks must be the same", "4");
}

static void unlike_settings_are_an_error_on_all(void **state)
{
  (void)state;
  all_hear_usage(unlike_agreement_run, "unlike settings", "000000000000abcd");
}

static void unlike_lengths_are_an_error_on_all(void **state)
{
  (void)state;
  all_hear_usage(unlike_len_run, "in round 0", "32");
}

/* ---- giving up --------------------------------------------------------------------------------------- */

static void quitter(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_round(&m, 0) != tuttiSuccess) _exit(81);
  tt_rendezvous_fail(m.rendezvous, tuttiSystemError, "no memory\nfor 42 things");
  tt_rendezvous_destroy(m.rendezvous);
}

static void a_rank_that_gives_up_tells_all_others_why(void **state)
{
  (void)state;
  struct job *job = job_make(4);
  pid_t pids[4];
  for (int r = 0; r < 4; r++) pids[r] = rank_spawn(job, r, r == 2 ? quitter : rank_and_linger);
  for (int r = 0; r < 4; r++) rank_reap(pids[r]);
  for (int r = 0; r < 4; r++) {
    if (r == 2) continue;
    job_expect(job, r, tuttiSystemError, "rank 2 (pid ");
    job_expect(job, r, tuttiSystemError, "gave up: no memory?for 42 things");
  }
  munmap(job, sizeof *job);
}

static void leaver(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_wait(&m) != tuttiSuccess) _exit(81);
  tt_rendezvous_destroy(m.rendezvous);
  await(&job->signal, 1);
}

static void a_rank_that_leaves_early_is_named(void **state)
{
  (void)state;
  struct job *job = job_make(3);
  pid_t pids[3];
  for (int r = 0; r < 3; r++) pids[r] = rank_spawn(job, r, r == 1 ? leaver : rank_and_linger);
  rank_reap(pids[0]);
  rank_reap(pids[2]);
  atomic_store(&job->signal, 1);
  rank_reap(pids[1]);
  job_expect(job, 0, tuttiRemoteError, "rank 1 (pid ");
  job_expect(job, 2, tuttiRemoteError, "rank 1 (pid ");
  munmap(job, sizeof *job);
}

/* ---- those who are not ours ---------------------------------------------------------------------------- */

static int stranger_connect(const struct tt_address *to)
{
  int fd = socket(to->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, &to->any, to->len) != 0) _exit(82);
  return fd;
}

/* Speaks HTTP, noise, or nothing at all. */
static void strangers_come(const struct tt_address *to, int count)
{
  static const char request[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  char noise[4096];
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (char)(i * 37);
  for (int i = 0; i < count; i++) {
    int fd = stranger_connect(to);
    ssize_t n = 0;
    if (i % 3 == 0) n = send(fd, request, sizeof request, MSG_NOSIGNAL);
    if (i % 3 == 1) n = send(fd, noise, sizeof noise, MSG_NOSIGNAL);
    (void)n; /* left open until this process ends */
  }
}

static tuttiResult_t guest_enter(struct job *job, uint32_t rank, int wrong_key, int *fd)
{
  struct tt_settings settings;
  struct tt_id id;
  struct tt_dial *dial;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = rank};
  settings_get(&settings);
  id_get(job, &id, &settings);
  if (wrong_key) id.pass.key[5] ^= 1;
  if (tt_dial_start(&dial, &id.root, &id.pass, &hello, tt_now_ns() + 10000u * (uint64_t)MS) != tuttiSuccess)
    _exit(83);
  tuttiResult_t result;
  while ((result = tt_dial_poll(dial, fd)) == tuttiInProgress) usleep(200);
  tt_dial_destroy(dial);
  return result;
}

static void stranger(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  int fd;
  (void)rank;
  settings_get(&settings);
  id_get(job, &id, &settings);
  strangers_come(&id.root, 60);
  if (guest_enter(job, 1, 1, &fd) != tuttiInvalidUsage) _exit(84);
  if (guest_enter(job, 1, 0, &fd) != tuttiSuccess) _exit(85); /* has the key, but never says a word */
  atomic_store(&job->signal, 1);
  await(&job->signal, 2);
}

static void among_strangers(struct job *job, int rank)
{
  if (rank == 0) id_publish(job);
  await(&job->signal, 1);
  rank_usual(job, rank);
  if (rank == 0) await(&job->signal, 2);
}

static void strangers_and_silent_guests_do_not_stop_the_start_up(void **state)
{
  (void)state;
  struct job *job = job_make(4);
  pid_t pids[4], foreign = rank_spawn(job, 0, stranger);
  for (int r = 0; r < 4; r++) pids[r] = rank_spawn(job, r, among_strangers);
  for (int r = 1; r < 4; r++) rank_reap(pids[r]);
  atomic_store(&job->signal, 2);
  rank_reap(pids[0]);
  rank_reap(foreign);
  for (int r = 0; r < 4; r++) job_expect(job, r, tuttiSuccess, NULL);
  munmap(job, sizeof *job);
}

static void key_thief(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  m.id.pass.key[0] ^= 1;
  outcome_set(job, 5, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
}

static void a_wrong_key_is_refused_at_once(void **state)
{
  (void)state;
  struct job *job = job_make(2);
  pid_t pids[2];
  pids[0] = rank_spawn(job, 0, rank_usual);
  rank_reap(rank_spawn(job, 1, key_thief));
  pids[1] = rank_spawn(job, 1, rank_usual);
  rank_reap(pids[0]);
  rank_reap(pids[1]);
  job_expect(job, 5, tuttiInvalidUsage, "key");
  job_expect(job, 0, tuttiSuccess, NULL);
  job_expect(job, 1, tuttiSuccess, NULL);
  munmap(job, sizeof *job);
}

/* Holds the key and says anything: the root must stay whole, whatever else happens. */
static void hostile_guests(struct job *job, int rank)
{
  (void)rank;
  unsigned seed = 12345;
  for (int i = 0; i < 200; i++) {
    struct {
      uint32_t version, nranks, rank;
      int32_t pid;
      uint64_t words[4];
      uint8_t reserved[16];
      char host[64];
      uint32_t kind, code;
      uint64_t len;
      uint8_t body[256];
    } said;
    _Static_assert(offsetof(__typeof__(said), kind) == 128, "a record, then a frame");
    int fd;
    uint8_t *bytes = (uint8_t *)&said;
    for (size_t k = 0; k < sizeof said; k++) bytes[k] = (uint8_t)(rand_r(&seed) >> 7);
    said.rank = (uint32_t)i % 2;
    if (i % 2) said.version = TUTTI_VERSION_CODE;
    if (i % 3) said.nranks = (uint32_t)rand_r(&seed) % 70000;
    if (i % 5) said.kind = (uint32_t)rand_r(&seed) % 8;
    if (i % 7) said.len = (uint64_t)rand_r(&seed) % 4096;
    if (guest_enter(job, said.rank, 0, &fd) != tuttiSuccess) _exit(86);
    ssize_t n = send(fd, &said, sizeof said - (size_t)(i % 256), MSG_NOSIGNAL);
    (void)n;
    usleep(1000);
    close(fd);
    if (i % 10 == 0) atomic_store(&job->id_ready, 0), atomic_store(&job->signal, i + 1);
  }
  atomic_store(&job->signal, 1000);
}

static void makers_of_ids(struct job *job, int rank)
{
  (void)rank;
  for (int last = 0; last < 1000;) {
    id_publish(job);
    await(&job->signal, last + 1);
    last = atomic_load(&job->signal);
  }
  exit(0);
}

static void hostile_guests_with_the_key_do_not_break_the_root(void **state)
{
  (void)state;
  struct job *job = job_make(2);
  pid_t maker = rank_spawn(job, 0, makers_of_ids);
  rank_reap(rank_spawn(job, 0, hostile_guests));
  rank_reap(maker);
  munmap(job, sizeof *job);
}

/* ---- again after a failure ------------------------------------------------------------------------------- */

static void fixed_survivor(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  struct member m;
  settings_get(&settings);
  if (tt_id_create(&id, &settings) != tuttiSuccess) _exit(91);
  struct job mine = {.nranks = job->nranks, .rounds = 2, .id_ready = 1};
  tt_id_pack(&id, &mine.id);
  member_prepare(&m, &mine, rank);
  if (member_start(&m) != tuttiSuccess || member_round(&m, 0) != tuttiSuccess) _exit(81);
  if (rank == 2) kill(getpid(), SIGKILL);
  if (member_round(&m, 1) != tuttiRemoteError) _exit(87);
  tt_rendezvous_destroy(m.rendezvous);
  mine.nranks = 2;
  member_prepare(&m, &mine, rank);
  outcome_set(job, rank, member_meet(&m));
  tt_rendezvous_destroy(m.rendezvous);
  if (rank == 0) root_linger();
}

static void a_fixed_address_can_be_used_again_after_a_failure(void **state)
{
  (void)state;
  char text[64];
  int status;
  snprintf(text, sizeof text, "127.0.0.1:%d", port_free());
  setenv("TUTTI_COMM_ID", text, 1);
  struct job *job = job_make(3);
  pid_t pids[3];
  for (int r = 0; r < 3; r++) pids[r] = rank_spawn(job, r, fixed_survivor);
  waitpid(pids[2], &status, 0);
  rank_reap(pids[0]);
  rank_reap(pids[1]);
  job_expect(job, 0, tuttiSuccess, NULL);
  job_expect(job, 1, tuttiSuccess, NULL);
  unsetenv("TUTTI_COMM_ID");
  munmap(job, sizeof *job);
}

int main(void)
{
  alarm(240);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  setenv("TUTTI_DEBUG", "NONE", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_killed_rank_is_named_to_all_others),
      cmocka_unit_test(a_killed_rank_is_noticed_though_its_child_holds_the_connection),
      cmocka_unit_test(a_killed_rank_is_noticed_though_its_memory_is_still_being_freed),
      cmocka_unit_test(a_rank_killed_before_the_first_round_is_named),
      cmocka_unit_test(the_roots_death_is_an_error_on_all_ranks),
      cmocka_unit_test(the_roots_death_is_noticed_though_its_child_holds_the_door),
      cmocka_unit_test(the_roots_death_is_noticed_before_and_after_connecting),
      cmocka_unit_test(missing_ranks_are_named_at_the_deadline),
      cmocka_unit_test(a_rank_that_stays_away_from_a_round_is_named_at_the_deadline),
      cmocka_unit_test(the_second_claimant_of_a_rank_is_refused_and_the_rest_goes_on),
      cmocka_unit_test(unlike_nranks_is_an_error_on_all),
      cmocka_unit_test(unlike_settings_are_an_error_on_all),
      cmocka_unit_test(unlike_lengths_are_an_error_on_all),
      cmocka_unit_test(a_rank_that_gives_up_tells_all_others_why),
      cmocka_unit_test(a_rank_that_leaves_early_is_named),
      cmocka_unit_test(strangers_and_silent_guests_do_not_stop_the_start_up),
      cmocka_unit_test(a_wrong_key_is_refused_at_once),
      cmocka_unit_test(hostile_guests_with_the_key_do_not_break_the_root),
      cmocka_unit_test(a_fixed_address_can_be_used_again_after_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
