/* SPDX-License-Identifier: BSD-3-Clause */
/* A bit changes on the way between a rank and the root: the start-up succeeds all the same, or fails on all ranks with
 * a sentence that says so. Every third byte of the first connection, one bit of each; all bits with --long. */
#include "../multi/bootstrap_ranks.h"

#include <poll.h>
#include <pthread.h>

#define PEER_INFO_BYTES 40

/* Sits between rank 1 and the root, and changes one bit of the first connection, or of all. */
struct proxy {
  pthread_t thread;
  int listener;
  struct tt_address at, root;
  int to_root, every; /* which way the bit goes; in each connection */
  size_t bit;
  _Atomic int stop, flipped;
};

static void flip(struct proxy *proxy, int is_first, int to_root, size_t before, uint8_t *bytes, size_t len)
{
  size_t byte = proxy->bit / 8;
  if (to_root != proxy->to_root || !(is_first || proxy->every) || byte < before || byte >= before + len) return;
  bytes[byte - before] ^= (uint8_t)(1 << proxy->bit % 8);
  atomic_fetch_add(&proxy->flipped, 1);
}

/* 0 once the connection has ended. */
static int relay(struct proxy *proxy, int is_first, int to_root, const int fd[2], size_t *before)
{
  uint8_t bytes[4096];
  ssize_t n = recv(fd[!to_root], bytes, sizeof bytes, MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 1;
  if (n <= 0) return 0;
  flip(proxy, is_first, to_root, *before, bytes, (size_t)n);
  *before += (size_t)n;
  for (ssize_t at = 0; at < n;) {
    ssize_t sent = send(fd[to_root], bytes + at, (size_t)(n - at), MSG_NOSIGNAL);
    if (sent < 0) return 0;
    at += sent;
  }
  return 1;
}

/* fd[0] is the rank's end, fd[1] the root's. */
static void serve(struct proxy *proxy, int is_first, int rank_fd)
{
  int fd[2] = {rank_fd, socket(proxy->root.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  size_t before[2] = {0, 0};
  int open = connect(fd[1], &proxy->root.any, proxy->root.len) == 0;
  while (open && !atomic_load(&proxy->stop)) {
    struct pollfd both[2] = {{.fd = fd[0], .events = POLLIN}, {.fd = fd[1], .events = POLLIN}};
    poll(both, 2, 1);
    /* What the root has said comes first: its last words may be followed by a reset. */
    open = relay(proxy, is_first, 0, fd, &before[0]) && relay(proxy, is_first, 1, fd, &before[1]);
  }
  close(fd[0]);
  close(fd[1]);
}

static void *proxy_main(void *argument)
{
  struct proxy *proxy = argument;
  for (int is_first = 1; !atomic_load(&proxy->stop);) {
    struct pollfd one = {.fd = proxy->listener, .events = POLLIN};
    if (poll(&one, 1, 1) <= 0) continue;
    int fd = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    if (fd < 0) continue;
    serve(proxy, is_first, fd);
    is_first = 0;
  }
  return NULL;
}

static void proxy_open(struct proxy *proxy, const struct tt_address *root)
{
  socklen_t size = sizeof proxy->at.v4;
  proxy->root = *root;
  proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  proxy->at.v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(proxy->listener, &proxy->at.any, size) != 0 || listen(proxy->listener, 16) != 0 ||
      getsockname(proxy->listener, &proxy->at.any, &size) != 0)
    _exit(71);
  proxy->at.len = size;
  if (pthread_create(&proxy->thread, NULL, proxy_main, proxy) != 0) _exit(72);
}

static void proxy_close(struct proxy *proxy)
{
  atomic_store(&proxy->stop, 1);
  pthread_join(proxy->thread, NULL);
  close(proxy->listener);
}

/* ---- two ranks in one process ---- */

struct end {
  struct member member;
  uint8_t peer_info[PEER_INFO_BYTES], all[2 * PEER_INFO_BYTES];
  tuttiResult_t result;
  char sentence[TT_SENTENCE_BYTES];
};

static void end_prepare(struct end *end, struct job *job, int rank)
{
  member_prepare(&end->member, job, rank);
  for (int i = 0; i < PEER_INFO_BYTES; i++) end->peer_info[i] = peer_info_byte(rank, 0, (size_t)i);
}

static void end_start(struct end *end)
{
  end->result = member_start(&end->member);
  if (end->result == tuttiSuccess)
    end->result = tt_rendezvous_gather(end->member.rendezvous, end->peer_info, PEER_INFO_BYTES, end->all);
  if (end->result != tuttiSuccess) _exit(73);
  end->result = tuttiInProgress;
}

static void end_poll(struct end *end)
{
  if (end->result != tuttiInProgress) return;
  end->result = tt_rendezvous_poll(end->member.rendezvous);
  if (end->result == tuttiInProgress) return;
  snprintf(end->sentence, sizeof end->sentence, "%s", end->result == tuttiSuccess ? "" : tt_last_sentence());
  if (end->result != tuttiSuccess) tt_rendezvous_fail(end->member.rendezvous, end->result, end->sentence);
}

static int is_right(const struct end *end)
{
  for (size_t i = 0; i < 2 * PEER_INFO_BYTES; i++)
    if (end->all[i] != peer_info_byte((int)(i / PEER_INFO_BYTES), 0, i % PEER_INFO_BYTES)) return 0;
  return 1;
}

struct flips {
  int succeeded, failed, missed; /* missed: the connection had no such byte */
};

/* Meets with a flip in the way; says what came of it. */
static void meet(struct flips *flips, int to_root, size_t bit, int every)
{
  static struct job job;
  struct end ends[2] = {0};
  struct proxy proxy = {.to_root = to_root, .bit = bit, .every = every};
  memset(&job, 0, sizeof job);
  job.nranks = 2;
  id_publish(&job);
  for (int r = 0; r < 2; r++) end_prepare(&ends[r], &job, r);
  proxy_open(&proxy, &ends[1].member.id.root);
  ends[1].member.id.root = proxy.at;
  for (int r = 0; r < 2; r++) end_start(&ends[r]);
  while (ends[0].result == tuttiInProgress || ends[1].result == tuttiInProgress) {
    for (int r = 0; r < 2; r++) end_poll(&ends[r]);
    usleep(100);
  }
  for (int r = 0; r < 2; r++) tt_rendezvous_destroy(ends[r].member.rendezvous);
  proxy_close(&proxy);
  int successes = 0;
  for (int r = 0; r < 2; r++) {
    int says = strstr(ends[r].sentence, "damaged") != NULL;
    successes += ends[r].result == tuttiSuccess && is_right(&ends[r]);
    if (ends[r].result == tuttiSuccess ? is_right(&ends[r]) : says) continue;
    fprintf(stderr, "bit %zu %s the root: rank %d: code %d, \"%s\", bytes are %s\n", bit, to_root ? "to" : "from", r,
            (int)ends[r].result, ends[r].sentence, is_right(&ends[r]) ? "right" : "wrong");
    _exit(74);
  }
  if (successes == 1 && ends[0].result != tuttiSuccess) _exit(75); /* rank 0 knows what rank 1 got */
  if (!atomic_load(&proxy.flipped)) flips->missed++;
  else if (successes == 2) flips->succeeded++;
  else flips->failed++;
}

static size_t bits_step = 24; /* 1 with --long */

static void flips_run(struct job *job, int to_root)
{
  struct flips flips = {0};
  (void)job;
  alarm(bits_step == 1 ? 0 : 500);
  for (size_t at = 0; !flips.missed; at += bits_step)
    meet(&flips, to_root, bits_step == 1 ? at : at + at / 8 % 8, 0);
  printf("%s the root: %d starts succeeded all the same, %d said that it came damaged\n", to_root ? "to" : "from",
         flips.succeeded, flips.failed);
  /* The handshake and the record are said again; frames are not. */
  size_t again = (to_root ? TT_REPLY_BYTES : TT_CHALLENGE_BYTES + TT_VERDICT_BYTES) + 184;
  size_t frames = 64 + (to_root ? 1 : 2) * PEER_INFO_BYTES;
  if ((size_t)flips.succeeded < again * 8 / bits_step || (size_t)flips.failed < frames * 8 / bits_step) _exit(76);
}

static void to_the_root(struct job *job, int rank)
{
  (void)rank;
  flips_run(job, 1);
}

static void from_the_root(struct job *job, int rank)
{
  (void)rank;
  flips_run(job, 0);
}

static void flips_on_the_way_to_the_root_are_noticed_or_harmless(void **state)
{
  (void)state;
  struct job *job = job_make(1);
  rank_reap(rank_spawn(job, 0, to_the_root));
  munmap(job, sizeof *job);
}

static void flips_on_the_way_from_the_root_are_noticed_or_harmless(void **state)
{
  (void)state;
  struct job *job = job_make(1);
  rank_reap(rank_spawn(job, 0, from_the_root));
  munmap(job, sizeof *job);
}

int main(int argc, char **argv)
{
  alarm(590);
  if (argc > 1 && strcmp(argv[1], "--long") == 0) bits_step = 1, alarm(0);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 0);
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("TUTTI_INIT_TIMEOUT_MS", "60000", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(flips_on_the_way_to_the_root_are_noticed_or_harmless),
      cmocka_unit_test(flips_on_the_way_from_the_root_are_noticed_or_harmless),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
