/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator tells its ranks and hosts, its rank's address, the transport to each rank, and the algorithm that a
 * size takes.
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 5
#define LIMIT_S 60

/* Ranks 0, 2 and 4 are on the host of rank 0, the others on another one. */
static int check_facts(const struct ranks *self, tuttiComm_t comm, const char *name)
{
  tuttiCommInfo_t info = {.size = sizeof info};
  const char *transport = NULL;
  RANKS_CHECK(tuttiCommGetInfo(comm, &info) == tuttiSuccess && info.size == sizeof info);
  RANKS_CHECK(info.nranks == RANKS && info.rank == self->rank);
  RANKS_CHECK(info.nhosts == 2 && info.host == self->rank % 2);
  RANKS_CHECK(info.local_nranks == 3 - self->rank % 2 && info.local_rank == self->rank / 2);
  RANKS_CHECK(strcmp(info.name, name) == 0 && strcmp(info.address, "127.0.0.1") == 0);
  for (int peer = 0; peer < RANKS; peer++) {
    const char *right = peer == self->rank ? "self" : peer % 2 == self->rank % 2 ? "shm" : "tcp";
    RANKS_CHECK(tuttiCommGetTransport(comm, peer, &transport) == tuttiSuccess && strcmp(transport, right) == 0);
  }
  return 0;
}

/* Communicators of one host, and of one rank. */
static int check_parts(const struct ranks *self, tuttiComm_t comm)
{
  for (int alone = 0; alone < 2; alone++) {
    tuttiCommInfo_t info = {.size = sizeof info};
    const char *transport = NULL;
    tuttiComm_t part;
    int n = alone ? 1 : 3 - self->rank % 2, rank = alone ? 0 : self->rank / 2;
    RANKS_CHECK(tuttiCommSplit(comm, alone ? self->rank : self->rank % 2, 0, &part, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiCommGetInfo(part, &info) == tuttiSuccess && info.nranks == n && info.rank == rank);
    RANKS_CHECK(info.nhosts == 1 && info.host == 0 && info.local_nranks == n && info.local_rank == rank);
    for (int peer = 0; peer < n; peer++) {
      RANKS_CHECK(tuttiCommGetTransport(part, peer, &transport) == tuttiSuccess);
      RANKS_CHECK(strcmp(transport, peer == rank ? "self" : "shm") == 0);
    }
    RANKS_CHECK(tuttiCommDestroy(part) == tuttiSuccess);
  }
  return 0;
}

static int check_refusals(const struct ranks *self, tuttiComm_t comm)
{
  tuttiCommInfo_t info = {.size = 3}, longer[2];
  char text[TUTTI_ALGORITHM_BYTES];
  const char *transport = NULL;
  RANKS_CHECK(tuttiCommGetInfo(comm, &info) == tuttiInvalidArgument && says("info->size is 3"));
  RANKS_CHECK(tuttiCommGetInfo(comm, NULL) == tuttiInvalidArgument && says("info is NULL"));
  RANKS_CHECK(tuttiCommGetInfo(NULL, &info) == tuttiInvalidArgument && says("comm is NULL"));
  info.size = offsetof(tuttiCommInfo_t, local_nranks); /* of an older program */
  info.local_nranks = -5;
  RANKS_CHECK(tuttiCommGetInfo(comm, &info) == tuttiSuccess && info.nhosts == 2 && info.local_nranks == -5);
  memset(longer, 255, sizeof longer); /* of a newer one */
  longer[0].size = sizeof longer;
  RANKS_CHECK(tuttiCommGetInfo(comm, longer) == tuttiSuccess && longer[0].rank == self->rank && !longer[1].nranks);
  RANKS_CHECK(tuttiCommGetTransport(comm, RANKS, &transport) == tuttiInvalidArgument && says("peer is 5"));
  RANKS_CHECK(tuttiCommGetTransport(comm, -1, &transport) == tuttiInvalidArgument && !transport);
  RANKS_CHECK(tuttiCommGetTransport(comm, 0, NULL) == tuttiInvalidArgument && says("name is NULL"));
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, "sum", 8, text, sizeof text) == tuttiInvalidArgument);
  RANKS_CHECK(says("collective is 'sum'") && says("all_reduce, reduce"));
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, "reduce", 8, text, 63) == tuttiInvalidArgument && says("size is 63"));
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, NULL, 8, text, 64) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, "reduce", 8, NULL, 64) == tuttiInvalidArgument);
  return 0;
}

static int facts_body(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  char text[TUTTI_ALGORITHM_BYTES];
  config.name = "facts";
  setenv("TUTTI_HOSTID", self->rank % 2 ? "b" : "a", 1);
  setenv("TUTTI_TABLE", self->argument, 1);
  setenv("TUTTI_SOCKET_IFNAME", "=lo", 1);
  setenv("TUTTI_SOCKET_FAMILY", "AF_INET", 1);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, RANKS, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(check_facts(self, comm, "facts") == 0 && check_refusals(self, comm) == 0);
  RANKS_CHECK(check_parts(self, comm) == 0);
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, "all_reduce", 1024, text, sizeof text) == tuttiSuccess);
  RANKS_CHECK(strcmp(text, "recursive_doubling") == 0);
  RANKS_CHECK(tuttiCommGetAlgorithm(comm, "AllReduce", 1025, text, sizeof text) == tuttiSuccess);
  RANKS_CHECK(strcmp(text, "ring") == 0);
  RANKS_CHECK(tuttiCommFinalize(comm) == tuttiSuccess && check_facts(self, comm, "facts") == 0);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void a_communicator_tells_ranks_hosts_transports_and_algorithms(void **state)
{
  (void)state;
  char table[] = "/tmp/tutti-info-XXXXXX";
  int fd = mkstemp(table);
  assert_true(fd >= 0);
  FILE *file = fdopen(fd, "w");
  fprintf(file, "all_reduce bytes 0..1KiB -> recursive_doubling\nall_reduce -> ring\n");
  assert_int_equal(fclose(file), 0);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm,tcp", 1);
  int bad = ranks_run_processes(RANKS, facts_body, table, LIMIT_S);
  unlink(table);
  assert_int_equal(bad, 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_communicator_tells_ranks_hosts_transports_and_algorithms),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
