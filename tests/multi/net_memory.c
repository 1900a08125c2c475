/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory, and descriptors that travel over local sockets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"
#include "memory/memory.h"
#include "net/net.h"

#define LEN 100000

static void pair_make(int pair[2])
{
  assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
}

static void pair_close(const int pair[2])
{
  close(pair[0]);
  close(pair[1]);
}

/* The other process: maps what comes, answers each byte with its complement. */
static int child_run(int socket)
{
  int fd = -1;
  uint64_t len = 0;
  void *map = NULL;
  tuttiResult_t result;
  alarm(60);
  while ((result = tt_fd_recv(socket, &fd, &len)) == tuttiInProgress) tt_sleep_ns(100000);
  if (result != tuttiSuccess || len != LEN) return 1;
  if (!(fcntl(fd, F_GETFD) & FD_CLOEXEC)) return 2;
  if (tt_memory_map(fd, (size_t)len, &map) != tuttiSuccess) return 3;
  close(fd);
  uint8_t *bytes = map;
  for (size_t i = 0; i < LEN; i++) bytes[i] = (uint8_t)~bytes[i];
  return munmap(map, LEN) ? 4 : 0;
}

static void two_processes_see_the_same_memory(void **state)
{
  (void)state;
  int before = census_descriptors(), pair[2], fd = -1, status;
  void *map = NULL;
  pair_make(pair);
  pid_t child = fork();
  if (child == 0) _exit(child_run(pair[1]));
  assert_int_equal(tt_memory_create("tutti-test", LEN, &fd, &map), tuttiSuccess);
  uint8_t *bytes = map;
  for (size_t i = 0; i < LEN; i++) {
    assert_int_equal(bytes[i], 0);
    bytes[i] = (uint8_t)(i * 7);
  }
  assert_int_equal(tt_fd_send(pair[0], fd, LEN), tuttiSuccess);
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
  for (size_t i = 0; i < LEN; i++) assert_int_equal(bytes[i], (uint8_t)~(i * 7));
  assert_int_equal(munmap(map, LEN), 0);
  close(fd);
  pair_close(pair);
  assert_int_equal(census_descriptors(), before);
}

static void its_size_cannot_be_changed(void **state)
{
  (void)state;
  int fd = -1;
  void *map = NULL;
  assert_int_equal(tt_memory_create("tutti-test", LEN, &fd, &map), tuttiSuccess);
  assert_int_equal(ftruncate(fd, 0), -1);
  assert_int_equal(errno, EPERM);
  assert_int_equal(ftruncate(fd, 2 * LEN), -1);
  assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE), -1);
  assert_true(fcntl(fd, F_GETFD) & FD_CLOEXEC);
  munmap(map, LEN);
  close(fd);
}

/* The line of /proc/self/smaps that begins with `key`, of the mapping at `map`. */
static void smaps_line(const void *map, const char *key, char *line, int size)
{
  FILE *file = fopen("/proc/self/smaps", "r");
  char start[32];
  int inside = 0;
  assert_non_null(file);
  snprintf(start, sizeof start, "%lx-", (unsigned long)(uintptr_t)map);
  while (fgets(line, size, file)) {
    if (strncmp(line, start, strlen(start)) == 0) inside = 1;
    if (inside && strncmp(line, key, strlen(key)) == 0) {
      fclose(file);
      return;
    }
  }
  fclose(file);
  fail_msg("no %s in smaps", key);
}

static void it_is_allocated_and_left_out_of_forks_and_dumps(void **state)
{
  (void)state;
  enum { BIG = 4 << 20 };
  int fd = -1;
  void *map = NULL;
  char line[256];
  struct stat status;
  assert_int_equal(tt_memory_create("tutti-test", BIG, &fd, &map), tuttiSuccess);
  assert_int_equal(fstat(fd, &status), 0);
  assert_int_equal(status.st_blocks * 512, BIG);
  smaps_line(map, "VmFlags:", line, sizeof line);
  assert_non_null(strstr(line, " dc")); /* not copied on fork */
  assert_non_null(strstr(line, " dd")); /* not dumped */
  munmap(map, BIG);
  close(fd);
}

static void too_much_is_an_error_with_the_size(void **state)
{
  (void)state;
  int before = census_descriptors(), fd = -7;
  void *map = NULL;
  struct rlimit old, low;
  /* A net: should the library ask the kernel for it, the kernel says no; that does not end the process (SIGXFSZ). */
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  low = old;
  low.rlim_cur = 64 << 20;
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
  assert_int_equal(tt_memory_create("tutti-test", (size_t)1 << 50, &fd, &map), tuttiSystemError);
  assert_non_null(strstr(tt_last_sentence(), "1125899906842624 bytes"));
  assert_non_null(strstr(tt_last_sentence(), "available"));
  assert_int_equal(tt_memory_create("tutti-test", 65 << 20, &fd, &map), tuttiSystemError);
  assert_non_null(strstr(tt_last_sentence(), "fallocate of 68157440 bytes"));
  assert_non_null(strstr(tt_last_sentence(), "ulimit -f"));
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
  assert_int_equal(fd, -7);
  assert_null(map);
  assert_int_equal(tt_memory_create("tutti-test", 0, &fd, &map), tuttiInternalError);
  assert_int_equal(census_descriptors(), before);
}

/* KiB of a mapping that this process has touched. */
static long resident_kib(const void *map)
{
  char line[512];
  unsigned long long from;
  long kib = -1;
  int is_here = 0;
  FILE *file = fopen("/proc/self/smaps", "r");
  while (file && kib < 0 && fgets(line, sizeof line, file)) {
    if (sscanf(line, "%llx-", &from) == 1 && strchr(line, '-')) is_here = from == (uintptr_t)map;
    if (is_here) sscanf(line, "Rss: %ld", &kib);
  }
  if (file) fclose(file);
  return kib;
}

static void a_view_has_the_bytes_and_no_page_is_mapped_before_it_is_touched(void **state)
{
  (void)state;
  enum { MIB = 1 << 20 };
  int fd = -1;
  void *map = NULL;
  const void *view = NULL;
  assert_int_equal(tt_memory_create("tutti-test", MIB, &fd, &map), tuttiSuccess);
  assert_int_equal(resident_kib(map), 0);
  memset(map, 5, MIB);
  assert_int_equal(tt_memory_view(fd, MIB, &view), tuttiSuccess);
  assert_int_equal(resident_kib(view), 0);
  assert_int_equal(resident_kib(map), 1024);
  assert_memory_equal(map, view, MIB);
  assert_int_equal(resident_kib(view), 1024);
  assert_int_equal(tt_memory_view(fd, MIB + 1, &view), tuttiRemoteError);
  munmap((void *)(uintptr_t)view, MIB);
  munmap(map, MIB);
  close(fd);
}

static void memory_of_another_size_is_refused(void **state)
{
  (void)state;
  int fd = -1;
  void *map = NULL, *second = NULL;
  assert_int_equal(tt_memory_create("tutti-test", LEN, &fd, &map), tuttiSuccess);
  static const size_t wrong[] = {0, 1, LEN - 1, LEN + 1, 4096, SIZE_MAX};
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
    assert_int_equal(tt_memory_map(fd, wrong[i], &second), tuttiRemoteError);
  assert_null(second);
  munmap(map, LEN);
  close(fd);
}

/* A memfd of the right size with some seals only; -1: none allowed. */
static void seals_refused(int seals)
{
  void *map = NULL;
  int fd = memfd_create("tutti-test", MFD_CLOEXEC | (seals >= 0 ? MFD_ALLOW_SEALING : 0));
  assert_true(fd >= 0);
  assert_int_equal(ftruncate(fd, LEN), 0);
  if (seals > 0) assert_int_equal(fcntl(fd, F_ADD_SEALS, seals), 0);
  assert_int_equal(tt_memory_map(fd, LEN, &map), tuttiRemoteError);
  assert_non_null(strstr(tt_last_sentence(), "seals"));
  assert_null(map);
  close(fd);
}

static void memory_that_may_shrink_is_refused(void **state)
{
  (void)state;
  seals_refused(-1);
  seals_refused(0);
  seals_refused(F_SEAL_GROW | F_SEAL_SEAL);
  seals_refused(F_SEAL_SHRINK | F_SEAL_SEAL);
  seals_refused(F_SEAL_SHRINK | F_SEAL_GROW);
}

static void what_is_no_memory_is_refused(void **state)
{
  (void)state;
  void *map = NULL;
  int pair[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
  pair_make(pair);
  assert_int_equal(tt_memory_map(null, LEN, &map), tuttiRemoteError);
  assert_int_equal(tt_memory_map(pair[0], LEN, &map), tuttiRemoteError);
  assert_int_equal(tt_memory_map(null, 0, &map), tuttiRemoteError);
  assert_int_equal(tt_memory_map(-1, LEN, &map), tuttiSystemError);
  close(null);
  pair_close(pair);
}

/* Sends 8 bytes or fewer and any number of descriptors. */
static void send_odd(int socket, size_t bytes, int count, int fd)
{
  char body[8] = "", control[CMSG_SPACE(sizeof(int) * 8)];
  struct iovec part = {body, bytes};
  struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
  memset(control, 0, sizeof control);
  if (count) {
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)count);
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)count);
    for (int i = 0; i < count; i++)
      memcpy(CMSG_DATA(header) + sizeof(int) * (size_t)i, &fd, sizeof fd);
  }
  assert_int_equal(sendmsg(socket, &message, MSG_NOSIGNAL), bytes);
}

static void odd_messages_are_refused_and_leave_no_descriptor(void **state)
{
  (void)state;
  static const struct {
    size_t bytes;
    int count;
  } rows[] = {{8, 0}, {8, 2}, {8, 8}, {3, 1}, {1, 0}};
  int before = census_descriptors();
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    int pair[2], fd = -7;
    uint64_t len = 77;
    pair_make(pair);
    send_odd(pair[0], rows[i].bytes, rows[i].count, pair[0]);
    assert_int_equal(tt_fd_recv(pair[1], &fd, &len), tuttiRemoteError);
    assert_int_equal(fd, -7);
    assert_int_equal(len, 77);
    pair_close(pair);
    assert_int_equal(census_descriptors(), before);
  }
}

static void an_end_is_told_from_silence(void **state)
{
  (void)state;
  int pair[2], fd = -7;
  uint64_t len;
  pair_make(pair);
  assert_int_equal(tt_fd_recv(pair[1], &fd, &len), tuttiInProgress);
  close(pair[0]);
  assert_int_equal(tt_fd_recv(pair[1], &fd, &len), tuttiRemoteError);
  assert_int_equal(tt_fd_send(pair[1], pair[1], 1), tuttiRemoteError);
  assert_int_equal(fd, -7);
  close(pair[1]);
}

static void a_full_socket_is_not_an_error(void **state)
{
  (void)state;
  int pair[2], fd, sent = 0, got = 0;
  uint64_t len;
  tuttiResult_t result;
  pair_make(pair);
  while ((result = tt_fd_send(pair[0], pair[0], (uint64_t)sent)) == tuttiSuccess) sent++;
  assert_true(result == tuttiInProgress || result == tuttiSystemError); /* ETOOMANYREFS: many in flight */
  while (tt_fd_recv(pair[1], &fd, &len) == tuttiSuccess) {
    assert_int_equal(len, got++);
    close(fd);
  }
  assert_int_equal(got, sent);
  assert_true(sent > 0);
  pair_close(pair);
}

int main(void)
{
  alarm(120);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(two_processes_see_the_same_memory),
      cmocka_unit_test(its_size_cannot_be_changed),
      cmocka_unit_test(it_is_allocated_and_left_out_of_forks_and_dumps),
      cmocka_unit_test(too_much_is_an_error_with_the_size),
      cmocka_unit_test(a_view_has_the_bytes_and_no_page_is_mapped_before_it_is_touched),
      cmocka_unit_test(memory_of_another_size_is_refused),
      cmocka_unit_test(memory_that_may_shrink_is_refused),
      cmocka_unit_test(what_is_no_memory_is_refused),
      cmocka_unit_test(odd_messages_are_refused_and_leave_no_descriptor),
      cmocka_unit_test(an_end_is_told_from_silence),
      cmocka_unit_test(a_full_socket_is_not_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
