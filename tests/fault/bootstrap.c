/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up with ranks that die, are missing, or contradict each other. */
#include "../multi/bootstrap_ranks.h"

#define LIMIT_NS (60000u * (uint64_t)MS) /* promised: 1 s on one host, if nothing holds the ranks up */

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

static void the_roots_death_is_noticed_though_its_child_holds_the_listener(void **state)
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

static void late_dialer(struct job *job, int rank)
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
  pids[2] = rank_spawn(job, 2, late_dialer);
  atomic_store(&job->signal, 2);
  for (int r = 0; r < 3; r++) rank_reap(pids[r]);
  job->nranks = 3;
  survivors_check(job, -1, "root (pid");
  munmap(job, sizeof *job);
}

/* ---- missing, twice, unlike ---------------------------------------------------------------------- */

/* Comes in before it gives its first peer info: who is too late for that is missed, too, and shows nothing else. */
static void punctual(struct job *job, int rank)
{
  struct member m;
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  tuttiResult_t result = member_start(&m);
  if (result == tuttiSuccess) result = member_wait(&m);
  if (result == tuttiSuccess) atomic_fetch_add(&job->in, 1);
  if (result == tuttiSuccess) result = member_round(&m, 0);
  outcome_set(job, rank, result);
  tt_rendezvous_destroy(m.rendezvous);
}

/* Is in, and stays away from the first round. */
static void absent_minded(struct job *job, int rank)
{
  struct member m;
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess) _exit(81);
  if (member_wait(&m) == tuttiSuccess) atomic_fetch_add(&job->in, 1);
  await(&job->signal, 1);
  outcome_set(job, rank, member_wait(&m));
  tt_rendezvous_destroy(m.rendezvous);
}

/* These of `nranks` come, of which one may be absent-minded, and all that do hear `part` and the limit. Where one of
 * them was held up until after that, again with a longer one. */
static void missed_at_the_deadline(int nranks, const int *there, int n, int absent, const char *part)
{
  char text[128], limit[16];
  for (int seconds = 1;; seconds *= 4) {
    struct job *job = job_make(nranks);
    pid_t pids[3];
    snprintf(limit, sizeof limit, "%d", 1000 * seconds);
    snprintf(text, sizeof text, "%s within %d s", part, seconds);
    setenv("TUTTI_INIT_TIMEOUT_MS", limit, 1);
    for (int i = 0; i < n; i++) pids[i] = rank_spawn(job, there[i], there[i] == absent ? absent_minded : punctual);
    for (int i = 0; i < n; i++)
      if (there[i] != absent) rank_reap(pids[i]);
    atomic_store(&job->signal, 1);
    for (int i = 0; i < n; i++)
      if (there[i] == absent) rank_reap(pids[i]);
    int in = atomic_load(&job->in);
    for (int i = 0; i < n && in == n; i++) job_expect(job, there[i], tuttiRemoteError, text);
    munmap(job, sizeof *job);
    if (in == n) break;
    if (seconds > 16) fail_msg("%d of %d ranks came within %d s", in, n, seconds);
  }
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
}

static void missing_ranks_are_named_at_the_deadline(void **state)
{
  (void)state;
  missed_at_the_deadline(8, (const int[]){0, 1, 3}, 3, -1, "ranks 2, 4-7 of 8 did not come");
}

static void a_rank_that_stays_away_from_a_round_is_named_at_the_deadline(void **state)
{
  (void)state;
  missed_at_the_deadline(3, (const int[]){0, 1, 2}, 3, 1, "rank 1 of 3 came but did not finish the start-up");
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

/* Rank 0 stays until its root has freed itself, that is until all have heard of the failure. Rank 1
 * comes first: the root must not wait for the fourth rank that only it knows of. */
static void unlike_nranks_run(struct job *job, int rank)
{
  struct member m;
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  if (rank == 1) m.spec.nranks = 4;
  else await(&job->in, 1);
  if (member_start(&m) != tuttiSuccess) _exit(81);
  if (rank == 1 && member_wait(&m) != tuttiSuccess) _exit(81);
  atomic_store(&job->in, 1);
  outcome_set(job, rank, member_round(&m, 0));
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

static void unlike_kind_run(struct job *job, int rank)
{
  struct member m;
  uint8_t mine[16] = {0}, all[16 * 8];
  if (rank == 0) id_publish(job);
  member_prepare(&m, job, rank);
  tuttiResult_t result = member_start(&m);
  if (result == tuttiSuccess)
    result = (rank == 1 ? tt_rendezvous_broadcast : tt_rendezvous_gather)(m.rendezvous, mine, sizeof mine, all);
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

static void a_broadcast_and_a_gather_in_one_round_are_an_error_on_all(void **state)
{
  (void)state;
  all_hear_usage(unlike_kind_run, "in round 0", " from rank 0 to all");
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

/* ---- what is complete stays complete ------------------------------------------------------------ */

/* Gives its peer info, then does not look until the root is gone. */
static void late_reader(struct job *job, int rank)
{
  struct member m;
  uint8_t mine = 1, all[2] = {0};
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess || member_wait(&m) != tuttiSuccess) _exit(81);
  if (tt_rendezvous_gather(m.rendezvous, &mine, 1, all) != tuttiSuccess) _exit(81);
  if (tt_rendezvous_poll(m.rendezvous) != tuttiInProgress) _exit(81);
  atomic_store(&job->in, 1);
  await(&job->signal, 1);
  outcome_set(job, rank, member_wait(&m));
  if (all[0] != 1 || all[1] != 1) _exit(88);
  tt_rendezvous_destroy(m.rendezvous);
}

static void root_that_leaves_at_once(struct job *job, int rank)
{
  struct member m;
  uint8_t mine = 1, all[2];
  id_publish(job);
  await(&job->in, 1);
  member_prepare(&m, job, rank);
  if (member_start(&m) != tuttiSuccess) _exit(81);
  if (tt_rendezvous_gather(m.rendezvous, &mine, 1, all) != tuttiSuccess) _exit(81);
  outcome_set(job, rank, member_wait(&m));
  kill(getpid(), SIGKILL);
}

static void a_complete_round_counts_though_the_root_has_died_since(void **state)
{
  (void)state;
  int status;
  struct job *job = job_make(2);
  pid_t root = rank_spawn(job, 0, root_that_leaves_at_once), reader = rank_spawn(job, 1, late_reader);
  waitpid(root, &status, 0);
  atomic_store(&job->signal, 1);
  rank_reap(reader);
  job_expect(job, 0, tuttiSuccess, NULL);
  job_expect(job, 1, tuttiSuccess, NULL);
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
  snprintf(text, sizeof text, "127.0.0.1:%d", port_free("127.0.0.1"));
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
      cmocka_unit_test(the_roots_death_is_noticed_though_its_child_holds_the_listener),
      cmocka_unit_test(the_roots_death_is_noticed_before_and_after_connecting),
      cmocka_unit_test(missing_ranks_are_named_at_the_deadline),
      cmocka_unit_test(a_rank_that_stays_away_from_a_round_is_named_at_the_deadline),
      cmocka_unit_test(the_second_claimant_of_a_rank_is_refused_and_the_rest_goes_on),
      cmocka_unit_test(unlike_nranks_is_an_error_on_all),
      cmocka_unit_test(unlike_settings_are_an_error_on_all),
      cmocka_unit_test(unlike_lengths_are_an_error_on_all),
      cmocka_unit_test(a_broadcast_and_a_gather_in_one_round_are_an_error_on_all),
      cmocka_unit_test(a_rank_that_gives_up_tells_all_others_why),
      cmocka_unit_test(a_rank_that_leaves_early_is_named),
      cmocka_unit_test(a_complete_round_counts_though_the_root_has_died_since),
      cmocka_unit_test(a_fixed_address_can_be_used_again_after_a_failure),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
