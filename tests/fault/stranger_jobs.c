/* SPDX-License-Identifier: BSD-3-Clause */
/* Strangers at every port of running jobs, drawn by seed: whatever listens in a rank's process, over IP or in the
 * host's abstract names, is visited during start-up and while collectives run, by the silent, the slow, other
 * protocols, garbage, halves of handshakes and resets. Jobs start, every value is exact, and they end in order. (That a
 * listener keeps nothing of them is fault/strangers.c.)
 *
 *   test_fault_stranger_jobs [--seed N] [--rounds N] [--seconds N]
 *
 * Labels: processes. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign.h"
#include "chance.h"
#include "exact.h"
#include "meeting.h"
#include "ranks.h"

enum { RANKS = 4, MOST = 4000, CALLS = 40, COMMS = 3, PORTS = 64, OPEN = 48, LIMIT_S = 60, MANY_ROUNDS = 20 };

struct world {
  uint64_t seed;
  int nranks, nhosts;
  struct meeting *meeting;
  _Atomic int at_work; /* ranks that have begun their calls, in all communicators */
  char wrong[RANKS][512];
};

/* ---- the job ---- */

static int body(const struct ranks *self)
{
  struct world *world = self->argument;
  struct exact_room room;
  uint64_t chance = world->seed;
  char host[16];
  snprintf(host, sizeof host, "host%d", self->rank % world->nhosts);
  if (world->nhosts > 1) setenv("TUTTI_HOSTID", host, 1);
  RANKS_CHECK(exact_room_make(&room, self->nranks, self->rank, MOST));
  for (int k = 0; k < COMMS; k++) {
    tuttiUniqueId id = self->id;
    if (k) RANKS_CHECK(meeting_id(world->meeting, self->rank == k % self->nranks, &id));
    tuttiResult_t result = tuttiCommInitRank(&room.comm, self->nranks, id, self->rank);
    if (result == tuttiSuccess) atomic_fetch_add(&world->at_work, 1);
    for (int c = 0; c < CALLS && result == tuttiSuccess && !room.wrong[0]; c++) {
      result = c % 8 == 7 ? exact_message(&room, &chance) : exact_calls(&room, &chance, 1, c % 5 == 0, NULL);
      usleep(200);
    }
    if (result == tuttiSuccess) result = tuttiCommDestroy(room.comm);
    snprintf(world->wrong[self->rank], sizeof world->wrong[0], "%s",
             result == tuttiSuccess ? room.wrong : tuttiGetLastError(NULL));
    RANKS_CHECK(result == tuttiSuccess && !room.wrong[0]);
  }
  exact_room_free(&room);
  return 0;
}

/* ---- what listens ---- */

struct port {
  union {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
  } at;
  socklen_t len;
};

struct ports {
  struct port port[PORTS];
  int n;
  unsigned long inodes[1024]; /* of the sockets of all ranks */
  int ninodes;
};

static void inodes_find(struct ports *ports, int pid)
{
  char path[300], link[64];
  snprintf(path, sizeof path, "/proc/%d/fd", pid);
  DIR *folder = opendir(path);
  for (struct dirent *entry; folder && (entry = readdir(folder));) {
    snprintf(path, sizeof path, "/proc/%d/fd/%s", pid, entry->d_name);
    ssize_t n = readlink(path, link, sizeof link - 1);
    if (n <= 0) continue;
    link[n] = 0;
    unsigned long inode;
    if (sscanf(link, "socket:[%lu]", &inode) == 1 && ports->ninodes < 1024) ports->inodes[ports->ninodes++] = inode;
  }
  if (folder) closedir(folder);
}

static struct port *port_add(struct ports *ports, unsigned long inode)
{
  for (int i = 0; i < ports->ninodes && ports->n < PORTS; i++)
    if (ports->inodes[i] == inode) return &ports->port[ports->n++];
  return NULL;
}

static void ip_read(struct ports *ports, const char *table, int is_v6)
{
  char line[512];
  FILE *file = fopen(table, "r");
  while (file && fgets(line, sizeof line, file)) {
    unsigned number, state;
    unsigned long inode;
    if (sscanf(line, " %*d: %*[0-9A-Fa-f]:%x %*s %x %*s %*s %*s %*s %*s %lu", &number, &state, &inode) != 3) continue;
    struct port *port = state == 10 ? port_add(ports, inode) : NULL; /* it listens */
    if (!port) continue;
    memset(port, 0, sizeof *port);
    if (is_v6)
      port->at.v6 = (struct sockaddr_in6){
          .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)number), .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    else
      port->at.v4 = (struct sockaddr_in){
          .sin_family = AF_INET, .sin_port = htons((uint16_t)number), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    port->len = is_v6 ? sizeof port->at.v6 : sizeof port->at.v4;
  }
  if (file) fclose(file);
}

static void local_read(struct ports *ports)
{
  char line[512], name[108];
  FILE *file = fopen("/proc/net/unix", "r");
  while (file && fgets(line, sizeof line, file)) {
    unsigned long inode;
    unsigned flags;
    if (sscanf(line, "%*x: %*x %*x %x %*x %*x %lu @%107s", &flags, &inode, name) != 3 || !(flags & 0x10000)) continue;
    struct port *port = port_add(ports, inode);
    if (!port) continue;
    memset(port, 0, sizeof *port);
    port->at.local.sun_family = AF_UNIX;
    memcpy(port->at.local.sun_path + 1, name, strlen(name));
    port->len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));
  }
  if (file) fclose(file);
}

static void ports_find(struct ports *ports, const int *pids, int n)
{
  ports->n = ports->ninodes = 0;
  for (int r = 0; r < n; r++) inodes_find(ports, pids[r]);
  ip_read(ports, "/proc/net/tcp", 0);
  ip_read(ports, "/proc/net/tcp6", 1);
  local_read(ports);
}

/* ---- strangers ---- */

enum act { SILENT, ONE_BYTE, HTTP, TLS, GARBAGE, ANSWER, MIRROR, RESET, HALF_CLOSED, DRIP, ACTS };

struct stranger {
  int fd; /* -1: none */
  enum act act;
};

struct visits {
  struct stranger strangers[OPEN];
  int next;
  long came, refused;
};

static void say(int fd, const void *data, size_t len)
{
  ssize_t n = send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
  (void)n;
}

static void stranger_act(struct stranger *stranger, uint64_t *chance)
{
  static const char http[] = "GET / HTTP/1.1\r\nHost: example.org\r\nUser-Agent: healthcheck\r\n\r\n";
  static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";
  static uint8_t noise[65536];
  struct linger now = {.l_onoff = 1, .l_linger = 0};
  for (size_t i = 0; i < 512; i++) noise[i] = (uint8_t)next(chance);
  switch (stranger->act) {
  case ONE_BYTE: say(stranger->fd, "T", 1); break;
  case HTTP: say(stranger->fd, http, sizeof http - 1); break;
  case TLS: say(stranger->fd, tls, sizeof tls - 1); break;
  case GARBAGE: say(stranger->fd, noise, 1 + below(chance, sizeof noise)); break;
  case RESET: setsockopt(stranger->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now); break;
  case HALF_CLOSED: shutdown(stranger->fd, SHUT_WR); break;
  default: break;
  }
}

/* Those that stay: they answer the challenge with noise or itself, or say a byte from time to time. */
static void stranger_stay(const struct stranger *stranger, uint64_t *chance)
{
  uint8_t heard[256], noise[112];
  if (stranger->fd < 0) return;
  if (stranger->act == DRIP) say(stranger->fd, "T", 1);
  if (stranger->act != ANSWER && stranger->act != MIRROR) return;
  ssize_t n = recv(stranger->fd, heard, sizeof heard, MSG_DONTWAIT);
  if (n <= 0) return;
  for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)next(chance);
  memcpy(noise, heard, n < 8 ? (size_t)n : 8); /* a right magic */
  if (stranger->act == MIRROR) say(stranger->fd, heard, (size_t)n);
  else say(stranger->fd, noise, below(chance, 2) ? sizeof noise : below(chance, sizeof noise));
}

static void visit(struct visits *visits, const struct ports *ports, uint64_t *chance)
{
  struct stranger *stranger = &visits->strangers[visits->next++ % OPEN];
  const struct port *port = &ports->port[below(chance, (size_t)ports->n)];
  if (stranger->fd >= 0) close(stranger->fd);
  stranger->act = (enum act)below(chance, ACTS);
  stranger->fd = socket(port->at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (stranger->fd < 0) return;
  if (connect(stranger->fd, &port->at.any, port->len) != 0 && errno != EINPROGRESS) {
    visits->refused++;
    return;
  }
  visits->came++;
  stranger_act(stranger, chance);
}

/* ---- the round ---- */

static long in_start_up, at_work;

static void round_run(struct campaign *campaign)
{
  int pids[RANKS], left, looks = 0;
  static struct ports ports;
  static struct visits visits;
  uint64_t chance = campaign->seed;
  struct world *world = ranks_shared(sizeof *world);
  if (!world) exit(2);
  world->seed = campaign->seed;
  world->nranks = 2 + (int)below(&chance, RANKS - 1);
  world->nhosts = 1 + (int)below(&chance, 2);
  world->meeting = meeting_make(world->nranks);
  setenv("TUTTI_TRANSPORTS", ranks_transports(1) ? below(&chance, 2) ? "shm,tcp" : "tcp" : ranks_transports(0), 1);
  if (!world->meeting || ranks_start(world->nranks, body, world, pids) != 0) exit(2);
  memset(&visits, 0, sizeof visits);
  for (int i = 0; i < OPEN; i++) visits.strangers[i].fd = -1;
  long limit = meeting_now_ms() + LIMIT_S * 1000L * ranks_patience();
  do {
    long before = visits.came;
    int works = atomic_load(&world->at_work);
    if (looks++ % 8 == 0) ports_find(&ports, pids, world->nranks);
    for (int k = 0; k < 6 && ports.n; k++) visit(&visits, &ports, &chance);
    for (int i = 0; i < OPEN; i++) stranger_stay(&visits.strangers[i], &chance);
    *(works % world->nranks == 0 && works ? &at_work : &in_start_up) += visits.came - before;
    usleep(500);
    left = 0;
    for (int r = 0; r < world->nranks; r++) {
      siginfo_t info = {0};
      left += waitid(P_PID, (id_t)pids[r], &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
    }
  } while (left && meeting_now_ms() < limit);
  for (int r = 0; r < world->nranks; r++) {
    int status = ranks_wait(pids[r], 1);
    if (status) campaign_fail(campaign, "rank %d of %d ends with %d: %s", r, world->nranks, status, world->wrong[r]);
  }
  for (int i = 0; i < OPEN; i++)
    if (visits.strangers[i].fd >= 0) close(visits.strangers[i].fd);
  meeting_free(world->meeting);
  munmap(world, sizeof *world);
}

int main(int argc, char **argv)
{
  struct campaign campaign;
  if (campaign_read(&campaign, "strangers", 6, argc, argv) > 1) return 2;
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  while (campaign_next(&campaign)) round_run(&campaign);
  if (!at_work || (!in_start_up && campaign.done >= MANY_ROUNDS)) { /* few start-ups may end before one comes */
    campaign_fail(&campaign, "%ld strangers came in start-ups, %ld later", in_start_up, at_work);
  }
  campaign_total(&campaign, "in_start_ups=%ld later=%ld", in_start_up, at_work);
  return campaign_end(&campaign, "%ld strangers in start-ups, %ld later", in_start_up, at_work);
}
