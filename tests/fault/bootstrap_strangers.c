/* SPDX-License-Identifier: BSD-3-Clause */
/* Start-up among strangers, wrong keys, and clients that hold the key and say anything. */
#include "../multi/bootstrap_ranks.h"
#include "bootstrap/wire_private.h"

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

/* Keys of the connection that client_enter has made last. */
static struct tt_session session;

static tuttiResult_t client_enter(struct job *job, uint32_t rank, int wrong_key, int *fd)
{
  struct tt_settings settings;
  struct tt_id id;
  struct tt_dialer *dialer;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = rank};
  settings_get(&settings);
  id_get(job, &id, &settings);
  if (wrong_key) id.credentials.key[5] ^= 1;
  if (tt_dialer_start(&dialer, &id.root, &id.credentials, &hello, tt_now_ns() + 10000u * (uint64_t)MS) != tuttiSuccess)
    _exit(83);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(dialer, fd)) == tuttiInProgress) usleep(200);
  session = *tt_dialer_session(dialer);
  tt_dialer_destroy(dialer);
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
  if (client_enter(job, 1, 1, &fd) != tuttiInvalidUsage) _exit(84);
  if (client_enter(job, 1, 0, &fd) != tuttiSuccess) _exit(85); /* has the key, but never says a word */
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

static void strangers_and_silent_clients_do_not_stop_the_start_up(void **state)
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
  m.id.credentials.key[0] ^= 1;
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
static void hostile_clients(struct job *job, int rank)
{
  (void)rank;
  unsigned seed = 12345;
  for (int i = 0; i < 200; i++) {
    struct {
      struct tt_record record;
      struct tt_start_frame head;
      uint8_t body[256];
    } said;
    int fd;
    uint8_t *bytes = (uint8_t *)&said;
    for (size_t k = 0; k < sizeof said; k++) bytes[k] = (uint8_t)(rand_r(&seed) >> 7);
    said.record.rank = (uint32_t)i % 2;
    if (i % 2) said.record.version = TUTTI_VERSION_CODE;
    if (i % 3) said.record.nranks = (uint32_t)rand_r(&seed) % 70000;
    if (i % 5) said.head.kind = (uint32_t)rand_r(&seed) % 8;
    if (i % 7) said.head.len = (uint64_t)rand_r(&seed) % 4096;
    if (client_enter(job, said.record.rank, 0, &fd) != tuttiSuccess) _exit(86);
    if (i % 11) tt_record_seal(&said.record, &session.out);
    if (i % 13) tt_frame_seal(&said.head, &session.out);
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

static void hostile_clients_with_the_key_do_not_break_the_root(void **state)
{
  (void)state;
  struct job *job = job_make(2);
  pid_t maker = rank_spawn(job, 0, makers_of_ids);
  rank_reap(rank_spawn(job, 0, hostile_clients));
  rank_reap(maker);
  munmap(job, sizeof *job);
}

/* ---- one senseless word at a time ----------------------------------------------------------------- */

struct words {
  struct tt_record record;
  struct tt_start_frame head;
};

static struct words words_of_rank_1(void)
{
  return (struct words){
      .record = {.version = TUTTI_VERSION_CODE, .nranks = 2, .rank = 1, .pid = 1, .agreement = 7}};
}

/* Says them, and a few thousand bytes more, and waits for the end of the connection. */
static void words_say(struct job *job, struct words *said, size_t len)
{
  static const uint8_t more[8192];
  char answer[1024];
  int fd;
  if (client_enter(job, 1, 0, &fd) != tuttiSuccess) _exit(86);
  tt_record_seal(&said->record, &session.out);
  tt_frame_digest(&said->head, NULL, 0);
  tt_frame_seal(&said->head, &session.out);
  ssize_t n = send(fd, said, len, MSG_NOSIGNAL);
  if (len == sizeof *said) n = send(fd, more, sizeof more, MSG_NOSIGNAL);
  shutdown(fd, SHUT_WR);
  for (int i = 0; i < 5000; i++) {
    n = recv(fd, answer, sizeof answer, MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN)) break;
    if (n < 0) usleep(1000);
  }
  close(fd);
}

static void senseless_records(struct job *job, int rank)
{
  static const uint32_t nranks[] = {0, 1, 65537, 0xffffffffu};
  (void)rank;
  for (size_t i = 0; i < sizeof nranks / sizeof nranks[0]; i++) {
    struct words said = words_of_rank_1();
    said.record.nranks = nranks[i];
      words_say(job, &said, sizeof said.record);
  }
  struct words said = words_of_rank_1();
  said.record.rank = 0; /* the handshake said 1 */
  words_say(job, &said, sizeof said.record);
}

static void a_senseless_record_only_costs_its_connection(void **state)
{
  (void)state;
  struct job *job = job_make(2);
  pid_t pids[2] = {rank_spawn(job, 0, rank_usual), 0};
  rank_reap(rank_spawn(job, 0, senseless_records));
  pids[1] = rank_spawn(job, 1, rank_usual);
  rank_reap(pids[0]);
  rank_reap(pids[1]);
  job_expect(job, 0, tuttiSuccess, NULL);
  job_expect(job, 1, tuttiSuccess, NULL);
  munmap(job, sizeof *job);
}

static uint32_t frame_kind;
static uint64_t frame_len;

static void senseless_frame(struct job *job, int rank)
{
  (void)rank;
  struct words said = words_of_rank_1();
  said.head.kind = frame_kind;
  said.head.len = frame_len;
  words_say(job, &said, sizeof said);
}

static void a_senseless_frame_is_the_fault_of_its_rank(void **state)
{
  (void)state;
  static const struct {
    uint32_t kind;
    uint64_t len;
  } frames[] = {{1, 0}, {1, TT_PEER_INFO_BYTES + 1}, {1, (1ull << 63) + 8}, {1, UINT64_MAX}, {2, 16},
                {3, 0}, {4, 0}, {4, UINT64_MAX}, {5, 0}, {6, 0}, {0xffffffffu, 8}};
  for (size_t i = 0; i < sizeof frames / sizeof frames[0]; i++) {
    struct job *job = job_make(2);
    frame_kind = frames[i].kind;
    frame_len = frames[i].len;
    pid_t rank_0 = rank_spawn(job, 0, rank_usual);
    rank_reap(rank_spawn(job, 0, senseless_frame));
    rank_reap(rank_0);
    job_expect(job, 0, tuttiRemoteError, "rank 1 (pid 1 on ");
    job_expect(job, 0, tuttiRemoteError, frames[i].kind == 3 ? "left before" : "broke the protocol");
    munmap(job, sizeof *job);
  }
}

int main(void)
{
  alarm(240);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  setenv("TUTTI_DEBUG", "NONE", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_senseless_record_only_costs_its_connection),
      cmocka_unit_test(a_senseless_frame_is_the_fault_of_its_rank),
      cmocka_unit_test(strangers_and_silent_clients_do_not_stop_the_start_up),
      cmocka_unit_test(a_wrong_key_is_refused_at_once),
      cmocka_unit_test(hostile_clients_with_the_key_do_not_break_the_root),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
