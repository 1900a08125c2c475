/* SPDX-License-Identifier: BSD-3-Clause */
/* How ranks find each other, as a user sees it: fixed addresses, key files, one id one communicator, many ranks.
 * Labels: processes. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/host.h"
#include "comm/private.h"
#include "meeting.h"
#include "port.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static int join(const struct ranks *self, tuttiUniqueId id)
{
  tuttiComm_t comm;
  float x = (float)(self->rank + 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x == (float)(self->nranks * (self->nranks + 1) / 2));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* ---- fixed addresses ---- */

static void comm_id_set(const char *address)
{
  char text[64];
  snprintf(text, sizeof text, "%s:%d", address, port_free(address));
  setenv("TUTTI_COMM_ID", text, 1);
}

static int several_at_one_address(const struct ranks *self)
{
  for (int k = 0; k < 10; k++) { /* nobody waits for the others in between */
    tuttiUniqueId id;
    RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
    if (join(self, id)) return 1;
  }
  return 0;
}

static void a_fixed_address_serves_several_communicators(void **state)
{
  (void)state;
  comm_id_set("127.0.0.1");
  assert_int_equal(ranks_run_processes(4, several_at_one_address, NULL, 60), 0);
  unsetenv("TUTTI_COMM_ID");
}

/* ---- secrets ---- */

/* A file in /tmp with this text and mode; its name into path. */
static void key_file(char path[32], const char *text, mode_t mode)
{
  strcpy(path, "/tmp/tutti-key-XXXXXX");
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
  assert_int_equal(fchmod(fd, mode), 0);
  close(fd);
}

static int be_refused_without_a_secret(const struct ranks *self)
{
  tuttiUniqueId id;
  setenv("TUTTI_COMM_ID", "192.0.2.1:2345", 1);
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiInvalidUsage);
  RANKS_CHECK(says("192.0.2.1:2345") && says("TUTTI_KEY_FILE") && says("0600") && says("TUTTI_AUTH=none"));
  return 0;
}

static void an_address_that_others_reach_needs_a_secret(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, be_refused_without_a_secret, NULL, 30), 0);
}

/* An address of this host that is not loopback; 0 if there is none. */
static int own_address(char text[INET_ADDRSTRLEN])
{
  struct ifaddrs *all = NULL;
  int found = 0;
  if (getifaddrs(&all) != 0) return 0;
  for (struct ifaddrs *at = all; at && !found; at = at->ifa_next) {
    if (!at->ifa_addr || at->ifa_addr->sa_family != AF_INET || !(at->ifa_flags & IFF_UP)) continue;
    if (at->ifa_flags & IFF_LOOPBACK) continue;
    const struct sockaddr_in *address = (const struct sockaddr_in *)(const void *)at->ifa_addr;
    found = inet_ntop(AF_INET, &address->sin_addr, text, INET_ADDRSTRLEN) != NULL;
  }
  freeifaddrs(all);
  return found;
}

static int join_fixed(const struct ranks *self)
{
  return join(self, self->id);
}

static void a_key_file_is_secret_enough(void **state)
{
  (void)state;
  char path[32], address[INET_ADDRSTRLEN];
  if (!own_address(address)) {
    printf("not tried: this host has loopback only\n");
    return;
  }
  key_file(path, "0123456789abcdef0123456789abcdef\n", 0600);
  setenv("TUTTI_KEY_FILE", path, 1);
  comm_id_set(address);
  assert_int_equal(ranks_run_processes(3, join_fixed, NULL, 60), 0);
  unsetenv("TUTTI_KEY_FILE");
  unlink(path);
  unsetenv("TUTTI_COMM_ID");
}

static void auth_none_is_warned_about(void **state)
{
  (void)state;
  char address[INET_ADDRSTRLEN], log[] = "/tmp/tutti-log-XXXXXX", text[8192] = "";
  if (!own_address(address)) {
    printf("not tried: this host has loopback only\n");
    return;
  }
  int fd = mkstemp(log);
  assert_true(fd >= 0);
  setenv("TUTTI_DEBUG", "WARN", 1);
  setenv("TUTTI_DEBUG_FILE", log, 1);
  setenv("TUTTI_AUTH", "none", 1);
  comm_id_set(address);
  int bad = ranks_run_processes(2, join_fixed, NULL, 60);
  assert_true(read(fd, text, sizeof text - 1) >= 0);
  close(fd);
  unlink(log);
  unsetenv("TUTTI_DEBUG_FILE");
  unsetenv("TUTTI_AUTH");
  unsetenv("TUTTI_COMM_ID");
  assert_int_equal(bad, 0);
  assert_non_null(strstr(text, "WARN"));
  assert_non_null(strstr(text, "TUTTI_AUTH=none"));
}

static int be_refused_for_an_open_file(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  setenv("TUTTI_KEY_FILE", self->argument, 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiInvalidUsage && comm == NULL);
  RANKS_CHECK(says("0644") && says("chmod 600") && says(self->argument));
  tuttiUniqueId id;
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiInvalidUsage && says("0644"));
  return 0;
}

static void a_key_file_that_others_may_read_is_refused(void **state)
{
  (void)state;
  char path[32];
  key_file(path, "0123456789abcdef0123456789abcdef\n", 0644);
  setenv("TUTTI_DEBUG", "NONE", 1);
  int bad = ranks_run_processes(1, be_refused_for_an_open_file, path, 30);
  unlink(path);
  assert_int_equal(bad, 0);
}

/* Rank 2 has another secret at first. */
struct secrets {
  char right[32], wrong[32];
  struct meeting *meeting;
  _Atomic int in_time;
};

/* Within the limit ranks 0 and 1 must meet, too: where one was held up, again with a longer one. */
static int differ_in_secrets(const struct ranks *self)
{
  struct secrets *secrets = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm = NULL;
  for (int limit_ms = 600; !atomic_load(&secrets->in_time) && limit_ms < 20000; limit_ms *= 4) {
    char text[16];
    snprintf(text, sizeof text, "%d", limit_ms);
    setenv("TUTTI_INIT_TIMEOUT_MS", text, 1);
    setenv("TUTTI_KEY_FILE", self->rank == 2 ? secrets->wrong : secrets->right, 1);
    RANKS_CHECK(meeting_id(secrets->meeting, self->rank == 0, &id));
    tuttiResult_t result = tuttiCommInitRank(&comm, self->nranks, id, self->rank);
    RANKS_CHECK(comm == NULL && result == (self->rank == 2 ? tuttiInvalidUsage : tuttiRemoteError));
    if (self->rank == 2) RANKS_CHECK(says("TUTTI_KEY_FILE"));
    if (self->rank == 1) secrets->in_time = strstr(tuttiGetLastError(NULL), "rank 2 of 3 did not come") != NULL;
    printf("rank %d: %s\n", self->rank, tuttiGetLastError(NULL));
    fflush(stdout);
    RANKS_CHECK(meeting_wait(secrets->meeting));
    if (self->rank == 0 && secrets->in_time) RANKS_CHECK(says("rank 2 of 3 did not come"));
  }
  RANKS_CHECK(secrets->in_time);
  setenv("TUTTI_KEY_FILE", secrets->right, 1);
  setenv("TUTTI_INIT_TIMEOUT_MS", "20000", 1);
  RANKS_CHECK(meeting_id(secrets->meeting, self->rank == 0, &id));
  return join(self, id);
}

static void a_rank_with_another_secret_does_not_come_in(void **state)
{
  (void)state;
  struct secrets *secrets = ranks_shared(sizeof *secrets);
  assert_non_null(secrets);
  secrets->meeting = meeting_make(3);
  key_file(secrets->right, "0123456789abcdef0123456789abcdef\n", 0600);
  key_file(secrets->wrong, "0123456789abcdef0123456789abcdeX\n", 0600);
  setenv("TUTTI_DEBUG", "NONE", 1);
  int bad = ranks_run_processes(3, differ_in_secrets, secrets, 60);
  unlink(secrets->right);
  unlink(secrets->wrong);
  assert_int_equal(bad, 0);
}

/* ---- one id, one communicator ---- */

/* Without a time limit of its own: it is refused before anybody is asked. */
static int use_twice(const struct ranks *self)
{
  tuttiComm_t comm = NULL, second = NULL;
  setenv("TUTTI_DEBUG", "NONE", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&second, self->nranks, self->id, self->rank) == tuttiInvalidUsage && second == NULL);
  RANKS_CHECK(says("this id has made a communicator already") && says("tuttiCommSplit") && says("tuttiGetUniqueId"));
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &second, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(second) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiInvalidUsage);
  return 0;
}

/* The same of the id that a launcher told. */
static int launch_twice(const struct ranks *self)
{
  char text[16];
  tuttiLaunch_t launch;
  struct ranks mine = *self;
  snprintf(text, sizeof text, "%d", self->rank);
  setenv("RANK", text, 1);
  snprintf(text, sizeof text, "%d", self->nranks);
  setenv("WORLD_SIZE", text, 1);
  RANKS_CHECK(tuttiGetLaunch(&launch) == tuttiSuccess && launch.nprocs == self->nranks);
  mine.id = launch.id;
  return use_twice(&mine);
}

static int threads_use_twice(const struct ranks *self)
{
  (void)self;
  return ranks_run_threads(3, use_twice, NULL, 60);
}

static void an_id_serves_one_communicator(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, use_twice, NULL, 60), 0);
  assert_int_equal(ranks_run_processes(1, use_twice, NULL, 60), 0);
  assert_int_equal(ranks_run_processes(1, threads_use_twice, NULL, 60), 0);
  comm_id_set("127.0.0.1");
  assert_int_equal(ranks_run_processes(3, launch_twice, NULL, 60), 0);
  unsetenv("TUTTI_COMM_ID");
}

/* Argument: a meeting. Rank 0 is late: rank 1 has given up before. */
static int try_again(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_INIT_TIMEOUT_MS", "300", 1);
  if (self->rank == 1)
    RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, 1) == tuttiRemoteError && comm == NULL);
  RANKS_CHECK(meeting_wait(self->argument));
  unsetenv("TUTTI_INIT_TIMEOUT_MS");
  if (getenv("TUTTI_COMM_ID")) return join(self, self->id);
  if (self->rank == 0) return 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, 1) == tuttiInvalidUsage && comm == NULL);
  RANKS_CHECK(says("has failed before") && says("tuttiGetUniqueId"));
  return 0;
}

static void an_error_ends_an_id_but_no_fixed_address(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, try_again, meeting_make(2), 60), 0);
  comm_id_set("127.0.0.1");
  assert_int_equal(ranks_run_processes(2, try_again, meeting_make(2), 60), 0);
  unsetenv("TUTTI_COMM_ID");
}

/* Rank 0 has aborted before rank 1 came. */
static int after_an_abort(const struct ranks *self)
{
  if (self->rank == 0) {
    tuttiComm_t comm = NULL;
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.blocking = 0;
    RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, self->id, 0, &config) == tuttiInProgress);
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  }
  RANKS_CHECK(meeting_wait(self->argument));
  return join(self, self->id);
}

static void an_abort_ends_no_fixed_address(void **state)
{
  (void)state;
  comm_id_set("127.0.0.1");
  assert_int_equal(ranks_run_processes(2, after_an_abort, meeting_make(2), 60), 0);
  unsetenv("TUTTI_COMM_ID");
}

/* ---- many ranks ---- */

static int time_init(const struct ranks *self)
{
  tuttiComm_t comm;
  long began_ms = meeting_now_ms();
  struct meeting *meeting = self->argument;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) printf("%d ranks: ready after %ld ms\n", self->nranks, meeting_now_ms() - began_ms);
  fflush(stdout);
  RANKS_CHECK(meeting_wait(meeting));
  float x = 1;
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x == (float)self->nranks);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int many_threads(const struct ranks *self)
{
  const int *nranks = self->argument;
  return ranks_run_threads(*nranks, time_init, meeting_make(*nranks), 100);
}

static void many_ranks_start(void **state)
{
  static const int sizes[] = {2, 16, 64};
  (void)state;
  for (int s = 0; s < 3; s++) {
    printf("threads, ");
    assert_int_equal(ranks_run_processes(1, many_threads, (void *)(uintptr_t)&sizes[s], 100), 0);
    printf("processes, ");
    assert_int_equal(ranks_run_processes(sizes[s], time_init, meeting_make(sizes[s]), 100), 0);
  }
}

/* ---- hosts of one machine ---- */

/* Argument: whether each rank has a core of its own. */
static int wait_politely(const struct ranks *self)
{
  int apart = *(const int *)self->argument, n = 0;
  tuttiComm_t comm;
  cpu_set_t cores, mine;
  char host[32];
  snprintf(host, sizeof host, "host%d", self->rank);
  setenv("TUTTI_HOSTID", host, 1);
  CPU_ZERO(&mine);
  RANKS_CHECK(sched_getaffinity(0, sizeof cores, &cores) == 0);
  for (size_t core = 0; core < CPU_SETSIZE; core++)
    if (CPU_ISSET(core, &cores) && n++ == (apart ? self->rank : 0)) CPU_SET(core, &mine);
  RANKS_CHECK(sched_setaffinity(0, sizeof mine, &mine) == 0);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK((comm->facts.oversubscribed > 0) == !apart);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void hosts_on_one_core_let_each_other_run(void **state)
{
  (void)state;
  int together = 0, apart = 1;
  assert_int_equal(ranks_run_processes(2, wait_politely, &together, 60), 0);
  if (tt_host_cores() > 1) assert_int_equal(ranks_run_processes(2, wait_politely, &apart, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fixed_address_serves_several_communicators),
      cmocka_unit_test(an_address_that_others_reach_needs_a_secret),
      cmocka_unit_test(a_key_file_is_secret_enough),
      cmocka_unit_test(auth_none_is_warned_about),
      cmocka_unit_test(a_key_file_that_others_may_read_is_refused),
      cmocka_unit_test(a_rank_with_another_secret_does_not_come_in),
      cmocka_unit_test(an_id_serves_one_communicator),
      cmocka_unit_test(an_error_ends_an_id_but_no_fixed_address),
      cmocka_unit_test(an_abort_ends_no_fixed_address),
      cmocka_unit_test(many_ranks_start),
      cmocka_unit_test(hosts_on_one_core_let_each_other_run),
  };
  alarm(250);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
