/* SPDX-License-Identifier: BSD-3-Clause */
/* What /proc says of a process in every state that a watch must tell apart. */
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/base.h"

/* /proc may lag by a moment; 0 if the state does not come. */
static int becomes(pid_t pid, uint64_t start, enum tt_life life)
{
  for (int i = 0; i < 2000; i++, tt_sleep_ns(1000000))
    if (tt_process_life(pid, start) == life) return 1;
  return 0;
}

static pid_t child_start(void (*body)(void))
{
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid > 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  _exit(0);
}

static void sleep_on(void)
{
  for (;;) pause();
}

static void a_process_is_alive_stopped_and_dead_in_turn(void **state)
{
  (void)state;
  pid_t pid = child_start(sleep_on);
  uint64_t start = tt_process_start(pid);
  assert_true(start > 0);
  assert_int_equal(tt_process_life(pid, start), TT_LIFE_ALIVE);
  assert_int_equal(tt_process_life(pid, start + 1), TT_LIFE_DEAD); /* another process with its number */
  kill(pid, SIGSTOP);
  assert_true(becomes(pid, start, TT_LIFE_FROZEN));
  kill(pid, SIGCONT);
  assert_true(becomes(pid, start, TT_LIFE_ALIVE));
  kill(pid, SIGKILL);
  assert_true(becomes(pid, start, TT_LIFE_DEAD)); /* a zombie: nobody has waited for it */
  waitpid(pid, NULL, 0);
  assert_int_equal(tt_process_life(pid, start), TT_LIFE_DEAD);
}

static int has_ended(int fd, int ms)
{
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  return poll(&ready, 1, ms) == 1;
}

/* fd -1: this kernel does not tell. */
static void the_kernel_tells_the_end_of_a_process(void **state)
{
  (void)state;
  pid_t pid = child_start(sleep_on);
  uint64_t start = tt_process_start(pid);
  int fd = tt_process_end_fd(pid, start);
  assert_int_equal(tt_process_end_fd(pid, start + 1), -1); /* another process with its number */
  if (fd >= 0) assert_false(has_ended(fd, 0));
  kill(pid, SIGKILL);
  if (fd >= 0) assert_true(has_ended(fd, 10000));
  waitpid(pid, NULL, 0);
  assert_int_equal(tt_process_end_fd(pid, start), -1);
  if (fd >= 0) close(fd);
  else skip();
}

static void *sleep_thread(void *nothing)
{
  (void)nothing;
  sleep_on();
  return NULL;
}

static void main_thread_ends(void)
{
  pthread_t thread;
  if (pthread_create(&thread, NULL, sleep_thread, NULL) != 0) _exit(1);
  pthread_exit(NULL);
}

static void a_process_lives_on_without_its_first_thread(void **state)
{
  (void)state;
  pid_t pid = child_start(main_thread_ends);
  uint64_t start = tt_process_start(pid);
  int fd = tt_process_end_fd(pid, start);
  for (int i = 0; i < 50; i++, tt_sleep_ns(1000000)) assert_int_equal(tt_process_life(pid, start), TT_LIFE_ALIVE);
  if (fd >= 0) assert_false(has_ended(fd, 0));
  if (fd >= 0) close(fd);
  kill(pid, SIGKILL);
  assert_true(becomes(pid, start, TT_LIFE_DEAD));
  waitpid(pid, NULL, 0);
}

static void a_process_held_by_a_debugger_is_traced(void **state)
{
  (void)state;
  pid_t pid = child_start(sleep_on);
  uint64_t start = tt_process_start(pid);
  if (ptrace(PTRACE_ATTACH, pid, NULL, NULL) != 0) {
    print_message("             ptrace is not allowed here\n");
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    skip();
  }
  assert_true(becomes(pid, start, TT_LIFE_TRACED));
  kill(pid, SIGKILL);
  waitpid(pid, NULL, 0);
}

int main(void)
{
  alarm(50);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_process_is_alive_stopped_and_dead_in_turn),
      cmocka_unit_test(the_kernel_tells_the_end_of_a_process),
      cmocka_unit_test(a_process_lives_on_without_its_first_thread),
      cmocka_unit_test(a_process_held_by_a_debugger_is_traced),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
