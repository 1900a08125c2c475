/* SPDX-License-Identifier: BSD-3-Clause */
/* The limits of the machine, without any library: two cores, and TCP between two processes. Prints a line a figure:
 *
 *   flag US                  each of two cores sets a flag and waits for that of the other
 *   copy BYTES US            memcpy of so many bytes, a half on each of two cores at once
 *   add BYTES US             the same for floats c = a + b
 *   ping US                  a byte to the other process and one back
 *   stream US_PER_MIB        one direction
 *   duplex US_PER_MIB        both directions at once, of the sum
 *
 * Each is the best of several batches. Nobody sleeps: sockets are looked at without a pause.
 *
 * usage: limits cores BYTES... | limits listen ADDRESS PORT | limits dial ADDRESS PORT */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BATCHES 7
#define BATCH_US 4000.0
#define FLAGS 20000 /* exchanges in a batch */
#define PINGS 300
#define STREAM_BYTES (8u << 20)
#define STREAM_US 300000.0 /* about so long for each direction */
#define PATIENCE_US 10e6   /* until the other process is there */
#define LINE 64

enum work { WORK_COPY, WORK_ADD };

struct cores {
  struct {
    _Alignas(2 * LINE) unsigned flag;
  } side[2];
  int cpu[2];
  float *a, *b, *c;
  size_t count;
};

struct side {
  struct cores *cores;
  int number;
  int nsizes;
  char **sizes;
};

static void fail(const char *what)
{
  fprintf(stderr, "limits: %s: %s\n", what, strerror(errno));
  exit(1);
}

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* ---- two cores ---- */

/* Sets the own flag, awaits the other's: it may be one further already. */
static void meet(const struct side *side, unsigned *turn)
{
  unsigned mine = ++*turn;
  __atomic_store_n(&side->cores->side[side->number].flag, mine, __ATOMIC_RELEASE);
  while (__atomic_load_n(&side->cores->side[!side->number].flag, __ATOMIC_ACQUIRE) - mine > 1) ;
}

static void flags_measure(const struct side *side, unsigned *turn)
{
  double best = 0;
  for (int b = 0; b < BATCHES; b++) {
    meet(side, turn);
    double begin = now_us();
    for (int i = 0; i < FLAGS; i++) meet(side, turn);
    double us = (now_us() - begin) / FLAGS;
    if (best == 0 || us < best) best = us;
  }
  if (side->number == 0) printf("flag %.4f\n", best);
}

static void work_do(const struct side *side, enum work work)
{
  const struct cores *cores = side->cores;
  size_t half = cores->count / 2, first = side->number ? half : 0, count = side->number ? cores->count - half : half;
  float *restrict c = cores->c + first;
  const float *a = cores->a + first, *b = cores->b + first;
  if (work == WORK_COPY) {
    memcpy(c, a, count * sizeof *c);
    __asm__ volatile("" ::: "memory");
    return;
  }
  for (size_t i = 0; i < count; i++) c[i] = a[i] + b[i];
}

static void work_measure(const struct side *side, enum work work, unsigned *turn)
{
  double best = 0;
  static int times; /* of side 0, for both */
  for (int b = 0; b < BATCHES; b++) {
    if (side->number == 0) times = best > 0 && best < BATCH_US ? (int)(BATCH_US / best) : 1;
    meet(side, turn);
    int n = times;
    double begin = now_us();
    for (int i = 0; i < n; i++) work_do(side, work);
    meet(side, turn); /* over when both are */
    double us = (now_us() - begin) / n;
    if (best == 0 || us < best) best = us;
  }
  if (side->number == 0)
    printf("%s %zu %.4f\n", work == WORK_COPY ? "copy" : "add", side->cores->count * sizeof(float), best);
}

static void *side_run(void *argument)
{
  const struct side *side = argument;
  struct cores *cores = side->cores;
  unsigned turn = 0;
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((size_t)cores->cpu[side->number], &set);
  sched_setaffinity(0, sizeof set, &set);
  flags_measure(side, &turn);
  for (int s = 0; s < side->nsizes; s++) {
    meet(side, &turn);
    if (side->number == 0) cores->count = strtoull(side->sizes[s], NULL, 10) / sizeof(float);
    meet(side, &turn);
    work_measure(side, WORK_COPY, &turn);
    work_measure(side, WORK_ADD, &turn);
  }
  return NULL;
}

static float *floats_create(size_t bytes)
{
  float *floats = aligned_alloc(LINE, (bytes + LINE) / LINE * LINE);
  if (!floats) fail("memory");
  memset(floats, 0, bytes); /* every page is there */
  return floats;
}

static int cores_measure(int nsizes, char **sizes)
{
  struct cores cores = {.cpu = {-1, -1}};
  struct side sides[2] = {{&cores, 0, nsizes, sizes}, {&cores, 1, nsizes, sizes}};
  size_t longest = sizeof(float);
  pthread_t thread;
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set)) fail("sched_getaffinity");
  for (size_t cpu = 0; cpu < CPU_SETSIZE && cores.cpu[1] < 0; cpu++)
    if (CPU_ISSET(cpu, &set)) cores.cpu[cores.cpu[0] >= 0] = (int)cpu;
  if (cores.cpu[1] < 0) return 0; /* one core: nothing to tell */
  for (int s = 0; s < nsizes; s++) {
    size_t bytes = strtoull(sizes[s], NULL, 10);
    longest = bytes > longest ? bytes : longest;
  }
  cores.a = floats_create(longest);
  cores.b = floats_create(longest);
  cores.c = floats_create(longest);
  if (pthread_create(&thread, NULL, side_run, &sides[1])) fail("pthread_create");
  side_run(&sides[0]);
  pthread_join(thread, NULL);
  free(cores.a);
  free(cores.b);
  free(cores.c);
  return 0;
}

/* ---- TCP ---- */

static struct sockaddr_in address_of(char **words)
{
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[1]))};
  errno = EINVAL;
  if (inet_pton(AF_INET, words[0], &address.sin_addr) != 1) fail(words[0]);
  return address;
}

static int accept_one(struct sockaddr_in address)
{
  int yes = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(listener, (struct sockaddr *)&address, sizeof address) || listen(listener, 1)) fail("listen");
  int fd = accept(listener, NULL, NULL);
  close(listener);
  return fd;
}

static int dial(struct sockaddr_in address)
{
  for (double end_us = now_us() + PATIENCE_US; now_us() < end_us; usleep(10000)) {
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0) return fd;
    close(fd);
  }
  return -1;
}

/* Sends and takes so many bytes, both as they go. */
static void move(int fd, size_t out, size_t in)
{
  static char sent[1u << 18], taken[1u << 18];
  while (out || in) {
    ssize_t n = out ? send(fd, sent, out < sizeof sent ? out : sizeof sent, MSG_NOSIGNAL) : 0;
    if (n < 0 && errno != EAGAIN) fail("send");
    out -= n > 0 ? (size_t)n : 0;
    n = in ? recv(fd, taken, in < sizeof taken ? in : sizeof taken, 0) : 0;
    if (n < 0 && errno != EAGAIN) fail("recv");
    in -= n > 0 ? (size_t)n : 0;
  }
}

static double ping(int fd, int is_first)
{
  double begin = now_us();
  for (int i = 0; i < PINGS; i++) {
    if (is_first) move(fd, 1, 0);
    move(fd, 0, 1);
    if (!is_first) move(fd, 1, 0);
  }
  return (now_us() - begin) / PINGS;
}

/* Time of the whole until an answer of one byte is there. */
static double stream(int fd, int is_first, size_t there, size_t back)
{
  double begin = now_us();
  move(fd, is_first ? there : back, is_first ? back : there);
  move(fd, is_first ? 0 : 1, is_first ? 1 : 0);
  return now_us() - begin;
}

static void streams_measure(int fd, int is_first, const char *name, size_t back)
{
  double mib = (double)(STREAM_BYTES + back) / 1048576, best = stream(fd, is_first, STREAM_BYTES, back);
  unsigned char more = best < STREAM_US / BATCHES ? BATCHES : 2; /* the first side says it */
  if (is_first && send(fd, &more, 1, MSG_NOSIGNAL) != 1) fail("send");
  while (!is_first && recv(fd, &more, 1, 0) != 1)
    if (errno != EAGAIN) fail("recv");
  for (int i = 0; i < more; i++) {
    double us = stream(fd, is_first, STREAM_BYTES, back);
    if (us < best) best = us;
  }
  if (is_first) printf("%s %.3f\n", name, best / mib);
}

static int tcp_measure(int is_first, char **words)
{
  struct sockaddr_in address = address_of(words);
  int yes = 1, fd = is_first ? dial(address) : accept_one(address);
  if (fd < 0) fail(is_first ? "connect" : "accept");
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  if (fcntl(fd, F_SETFL, O_NONBLOCK)) fail("fcntl");
  double best = 0;
  for (int b = 0; b < BATCHES; b++) {
    double us = ping(fd, is_first);
    if (best == 0 || us < best) best = us;
  }
  if (is_first) printf("ping %.3f\n", best);
  streams_measure(fd, is_first, "stream", 0);
  streams_measure(fd, is_first, "duplex", STREAM_BYTES);
  close(fd);
  return 0;
}

int main(int argc, char **argv)
{
  if (argc >= 2 && strcmp(argv[1], "cores") == 0) return cores_measure(argc - 2, argv + 2);
  if (argc == 4 && strcmp(argv[1], "listen") == 0) return tcp_measure(0, argv + 2);
  if (argc == 4 && strcmp(argv[1], "dial") == 0) return tcp_measure(1, argv + 2);
  fprintf(stderr, "usage: limits cores BYTES... | limits listen ADDRESS PORT | limits dial ADDRESS PORT\n");
  return 2;
}
