/* SPDX-License-Identifier: BSD-3-Clause */
/* The network interfaces that `tutti tune` measures in a job: all ranks agree on them over a communicator they have. */
#include <ifaddrs.h>
#include <limits.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "command.h"

/* It is up, with a carrier and an address of IPv4 or IPv6. */
static int is_usable(const struct ifaddrs *at)
{
  unsigned wanted = IFF_UP | IFF_RUNNING;
  if (!at->ifa_addr || (at->ifa_flags & wanted) != wanted) return 0;
  return at->ifa_addr->sa_family == AF_INET || at->ifa_addr->sa_family == AF_INET6;
}

static int is_there(const struct ifaddrs *all, const char *name)
{
  for (const struct ifaddrs *at = all; at; at = at->ifa_next)
    if (is_usable(at) && strcmp(at->ifa_name, name) == 0) return 1;
  return 0;
}

static int name_add(struct interfaces *found, const char *name)
{
  for (int i = 0; i < found->n; i++)
    if (strcmp(found->names[i], name) == 0) return 1;
  if (found->n == INTERFACES_MOST || !name[0] || strlen(name) >= sizeof found->names[0]) return 0;
  strcpy(found->names[found->n++], name);
  return 1;
}

/* Rank 0's list, which all others follow: the names given, or for "all" those of this host but the loopback. */
static void names_list(struct interfaces *found, const char *list, const struct ifaddrs *all)
{
  char names[512], *rest = NULL;
  int is_all = strcmp(list, "all") == 0, is_fine = strlen(list) < sizeof names;
  for (const struct ifaddrs *at = all; is_all && at; at = at->ifa_next)
    if (is_usable(at) && !(at->ifa_flags & IFF_LOOPBACK)) name_add(found, at->ifa_name);
  if (is_all) return;
  snprintf(names, sizeof names, "%s", list);
  for (char *name = strtok_r(names, ",", &rest); name && is_fine; name = strtok_r(NULL, ",", &rest))
    is_fine = name_add(found, name);
  if (!is_fine) found->n = 0;
}

/* Takes out what some rank lacks; a list is followed to the letter, so then it is an error, of which rank 0 tells. */
static int lacking_drop(struct interfaces *found, const int *lacks, int rank, int is_all)
{
  int kept = 0;
  for (int i = 0; i < found->n; i++) {
    if (lacks[i] == INT_MAX) {
      memmove(found->names[kept++], found->names[i], sizeof found->names[0]);
      continue;
    }
    if (is_all) continue;
    if (rank == 0)
      fprintf(stderr, "tutti tune: rank %d has no interface \"%s\" that is up: leave it out of --interfaces\n",
              lacks[i], found->names[i]);
    return 0;
  }
  found->n = kept;
  return 1;
}

int interfaces_agree(struct interfaces *found, const char *list, tuttiComm_t comm, int rank)
{
  struct ifaddrs *all = NULL;
  int lacks[INTERFACES_MOST];
  memset(found, 0, sizeof *found);
  if (getifaddrs(&all) != 0) all = NULL; /* then it lacks them all */
  if (rank == 0) names_list(found, list, all);
  tuttiResult_t result = tuttiBroadcast(found, found, sizeof *found, tuttiUint8, 0, comm, NULL);
  for (int i = 0; i < INTERFACES_MOST; i++) lacks[i] = i < found->n && is_there(all, found->names[i]) ? INT_MAX : rank;
  freeifaddrs(all);
  if (result == tuttiSuccess) result = tuttiAllReduce(lacks, lacks, INTERFACES_MOST, tuttiInt32, tuttiMin, comm, NULL);
  if (result != tuttiSuccess) {
    fprintf(stderr, "tutti tune: --interfaces: %s\n", tuttiGetErrorString(result));
    return 0;
  }
  struct interfaces asked = *found;
  int is_fine = found->n == 0 || lacking_drop(found, lacks, rank, strcmp(list, "all") == 0);
  if (is_fine && found->n) return 1;
  if (is_fine && rank == 0)
    fprintf(stderr, "tutti tune: --interfaces is \"%s\": %s\n", list,
            asked.n ? "no interface is up on all hosts" : "give up to 16 names of interfaces, or all");
  return 0;
}

tuttiResult_t interface_take(tuttiComm_t *comm, const char *name, tuttiComm_t first, int rank, int nranks)
{
  struct {
    tuttiUniqueId id;
    int result;
  } told = {.result = tuttiSuccess};
  char exactly[32];
  snprintf(exactly, sizeof exactly, "=%s", name);
  setenv("TUTTI_SOCKET_IFNAME", exactly, 1);
  unsetenv("TUTTI_COMM_ID"); /* it stands for the first one */
  if (rank == 0) told.result = (int)tuttiGetUniqueId(&told.id);
  tuttiResult_t result = tuttiBroadcast(&told, &told, sizeof told, tuttiUint8, 0, first, NULL);
  if (result == tuttiSuccess) result = (tuttiResult_t)told.result;
  return result == tuttiSuccess ? tuttiCommInitRank(comm, nranks, told.id, rank) : result;
}
