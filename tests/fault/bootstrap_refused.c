/* SPDX-License-Identifier: BSD-3-Clause */
/* The root tells its operator whom it refused: in the line about ranks that are waited for, and in the error at the
 * deadline. One job for each reason, side by side. */
#include "../multi/bootstrap_ranks.h"

#include <fcntl.h>

#define SECOND (1000u * (uint64_t)MS)
#define OTHER_USER 65534

static void dial_as(struct tt_id *id, uint64_t patience_ns, tuttiResult_t expected)
{
  struct tt_dialer *dialer;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = 1};
  int fd = -1;
  if (tt_dialer_start(&dialer, &id->root, &id->credentials, &hello, tt_now_ns() + patience_ns) != tuttiSuccess)
    _exit(60);
  tuttiResult_t result;
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) usleep(200);
  tt_dialer_destroy(dialer);
  if (result != expected) _exit(61);
}

static void with_another_key(struct tt_id *id)
{
  id->credentials.key[5] ^= 1;
  dial_as(id, 60 * SECOND, tuttiInvalidUsage);
}

static void with_another_id(struct tt_id *id)
{
  id->credentials.job[5] ^= 1;
  dial_as(id, 4 * SECOND, tuttiRemoteError);
}

static int raw_connect(const struct tt_id *id)
{
  int fd = socket(id->root.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0 || connect(fd, &id->root.any, id->root.len) != 0) _exit(62);
  return fd;
}

/* Until the other side has closed. */
static void raw_say(int fd, const void *words, size_t len)
{
  char answer[256];
  if (send(fd, words, len, MSG_NOSIGNAL) != (ssize_t)len) _exit(63);
  while (recv(fd, answer, sizeof answer, 0) > 0) continue;
  close(fd);
}

static void of_another_version(struct tt_id *id)
{
  uint8_t challenge[TT_CHALLENGE_BYTES], reply[TT_REPLY_BYTES], secret[TT_KEY_BYTES];
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = 1};
  int fd = raw_connect(id);
  if (recv(fd, challenge, sizeof challenge, MSG_WAITALL) != sizeof challenge) _exit(64);
  if (tt_reply_make(reply, challenge, &id->credentials, &hello, secret) != tuttiSuccess) _exit(65);
  reply[8]++;
  raw_say(fd, reply, sizeof reply);
}

static void of_another_protocol(struct tt_id *id)
{
  raw_say(raw_connect(id), "GET / HTTP/1.1\r\n\r\n", 18);
}

static void of_another_user(struct tt_id *id)
{
  if (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0) _exit(66);
  dial_as(id, 4 * SECOND, tuttiRemoteError);
}

static const struct reason {
  void (*come)(struct tt_id *id);
  const char *said, *from;
} reasons[] = {{with_another_key, " (refused: 5 connections with another key, ", "the last from 127.0.0.1)"},
               {with_another_id, " connections with another id, ", "the last from 127.0.0.1)"},
               {of_another_version, " (refused: 1 connection of another version or build of this library, ",
                "the last from 127.0.0.1)"},
               {of_another_protocol, " (refused: 1 connection that spoke another protocol or nothing, ",
                "the last from 127.0.0.1)"},
               {of_another_user, " connections of another user, ", " of uid 65534)"}};
enum { REASONS = sizeof reasons / sizeof reasons[0] };

static const struct reason *reason;
static char log_path[REASONS][64];

/* Its root opens when rank 0 comes. */
static void fixed_id_publish(struct job *job)
{
  struct tt_settings settings;
  struct tt_id id;
  settings_get(&settings);
  if (tt_id_create(&id, &settings) != tuttiSuccess) _exit(68);
  tt_id_pack(&id, &job->id);
  atomic_store(&job->id_ready, 1);
}

/* Waits for rank 1, which never comes. */
static void lonely_root(struct job *job, int rank)
{
  int fd = open(log_path[reason - reasons], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
  if (fd < 0 || dup2(fd, 2) < 0) _exit(67);
  setenv("TUTTI_DEBUG", "WARN", 1);
  setenv("TUTTI_LATE_WARN_MS", "5000", 1);
  setenv("TUTTI_INIT_TIMEOUT_MS", "9000", 1);
  if (getenv("TUTTI_COMM_ID")) fixed_id_publish(job);
  rank_usual(job, rank);
}

static void refused_one(struct job *job, int rank)
{
  struct tt_settings settings;
  struct tt_id id;
  (void)rank;
  settings_get(&settings);
  id_get(job, &id, &settings);
  usleep(200000); /* rank 0 has come then, or comes later: refusals of before its coming count as well */
  reason->come(&id);
}

static void log_expect(const char *path)
{
  char line[1024];
  int waits = 0;
  FILE *file = fopen(path, "r");
  assert_non_null(file);
  while (fgets(line, sizeof line, file))
    waits += strstr(line, "start-up waits for rank 1 of 2 since ") && strstr(line, reason->said) &&
             strstr(line, reason->from);
  fclose(file);
  unlink(path);
  if (waits != 1) fail_msg("%d warnings that it waits say \"%s\"", waits, reason->said);
}

static void the_root_says_whom_it_refused(void **state)
{
  (void)state;
  struct job *jobs[REASONS] = {NULL};
  pid_t roots[REASONS], others[REASONS];
  char address[64];
  int count = REASONS;
  if (geteuid() != 0) {
    print_message("another user is left out: only root can become one\n");
    count--;
  }
  for (int i = 0; i < count; i++) {
    reason = &reasons[i];
    jobs[i] = job_make(2);
    snprintf(log_path[i], sizeof log_path[i], "/tmp/tutti-refused-%d-%d", (int)getpid(), i);
    snprintf(address, sizeof address, "127.0.0.1:%d", port_free("127.0.0.1"));
    if (reason->come == of_another_user) setenv("TUTTI_COMM_ID", address, 1);
    roots[i] = rank_spawn(jobs[i], 0, lonely_root);
    others[i] = rank_spawn(jobs[i], 1, refused_one);
  }
  for (int i = 0; i < count; i++) {
    reason = &reasons[i];
    rank_reap(others[i]);
    rank_reap(roots[i]);
    job_expect(jobs[i], 0, tuttiRemoteError, "rank 1 of 2 did not come within 9 s");
    job_expect(jobs[i], 0, tuttiRemoteError, reason->said);
    job_expect(jobs[i], 0, tuttiRemoteError, reason->from);
    log_expect(log_path[i]);
    munmap(jobs[i], sizeof *jobs[i]);
  }
}

int main(void)
{
  alarm(120);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  setenv("TUTTI_DEBUG", "NONE", 0);
  unsetenv("TUTTI_KEY_FILE");
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_root_says_whom_it_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
