/* SPDX-License-Identifier: BSD-3-Clause */
/* The name of rank 0's host: it is waited for, but not what cannot be a name, and the start-up has as much less time;
 * rank 0 warns where its own name is at
 * a loopback address, which other hosts cannot reach. The names are those of a getaddrinfo of this program.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bootstrap/launch_private.h"
#include "tutti_tools.h"

static struct {
  int asked, comes_at, error; /* times that a name was asked for; the time at which it is known, 0: never; until then */
  const char *ip;
} names;

int getaddrinfo(const char *restrict name, const char *restrict service, const struct addrinfo *restrict hints,
                struct addrinfo **restrict found)
{
  static struct sockaddr_in at;
  static struct addrinfo one;
  (void)service;
  (void)hints;
  int is_number = inet_pton(AF_INET, name, &at.sin_addr) == 1;
  if (!is_number && (++names.asked < names.comes_at || !names.comes_at)) return names.error;
  if (!is_number) assert_int_equal(inet_pton(AF_INET, names.ip, &at.sin_addr), 1);
  at.sin_family = AF_INET;
  one = (struct addrinfo){.ai_family = AF_INET, .ai_addr = (struct sockaddr *)&at, .ai_addrlen = sizeof at};
  *found = &one;
  return 0;
}

void freeaddrinfo(struct addrinfo *found)
{
  (void)found;
}

static struct tt_settings settings_of(int init_timeout_ms)
{
  struct tt_settings settings;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  settings.auth = TT_AUTH_NONE;
  settings.init_timeout_ms = init_timeout_ms;
  return settings;
}

static void a_name_that_comes_late_is_waited_for(void **state)
{
  (void)state;
  static const int errors[] = {EAI_NONAME, EAI_AGAIN, EAI_FAIL};
  struct tt_settings settings = settings_of(60000);
  for (size_t e = 0; e < sizeof errors / sizeof errors[0]; e++) {
    struct tt_id id;
    char text[TT_ADDRESS_TEXT_BYTES];
    names.asked = 0, names.comes_at = 3, names.error = errors[e], names.ip = "192.0.2.7";
    assert_int_equal(tt_id_fixed(&id, "sum-0.sum:29500", &settings), tuttiSuccess);
    assert_int_equal(names.asked, 3);
    assert_string_equal(tt_address_text(&id.root, text, sizeof text), "192.0.2.7:29500");
  }
}

static void a_name_that_never_comes_is_an_error_at_the_end(void **state)
{
  (void)state;
  struct tt_settings settings = settings_of(250);
  struct tt_id id;
  names.asked = 0, names.comes_at = 0, names.error = EAI_NONAME;
  assert_int_equal(tt_id_fixed(&id, "sum-0.sum:29500", &settings), tuttiInvalidArgument);
  assert_true(names.asked > 1);
  char wanted[TT_SENTENCE_BYTES];
  snprintf(wanted, sizeof wanted, "host \"sum-0.sum\" of \"sum-0.sum:29500\" (TUTTI_COMM_ID or MASTER_ADDR) is not "
           "known: %s", gai_strerror(EAI_NONAME));
  assert_string_equal(tt_last_sentence(), wanted);
}

/* Asks for an id, then for the limit of the start-up with it, in ms. */
static uint64_t limit_of(const struct tt_settings *settings, const char *text, int comes_at)
{
  struct tt_id id;
  names.asked = 0, names.comes_at = comes_at, names.error = EAI_NONAME, names.ip = "192.0.2.7";
  assert_int_equal(tt_id_fixed(&id, text, settings), tuttiSuccess);
  return tt_start_limit(&id, settings) / 1000000u;
}

static void the_wait_for_a_name_counts_in_the_limit_once(void **state)
{
  (void)state;
  struct tt_settings settings = settings_of(60000);
  struct tt_id other = {0};
  assert_int_equal(limit_of(&settings, "192.0.2.7:29500", 0), 60000);
  uint64_t left = limit_of(&settings, "sum-0.sum:29500", 3); /* pauses of 100 and 200 ms at least */
  assert_true(left <= 59700 && left > 1000);
  assert_int_equal(left % 100, 0);
  assert_int_equal(limit_of(&settings, "192.0.2.7:29500", 0), 60000); /* it has been counted */
  limit_of(&settings, "sum-0.sum:29500", 2);
  assert_int_equal(tt_start_limit(&other, &settings) / 1000000u, 60000); /* not at a fixed address */
  settings.init_timeout_ms = 1200;
  assert_int_equal(limit_of(&settings, "sum-0.sum:29500", 3), 1000);
  settings.init_timeout_ms = 900;
  assert_int_equal(limit_of(&settings, "sum-0.sum:29500", 2), 900);
}

static void what_cannot_be_a_name_is_an_error_at_once(void **state)
{
  (void)state;
  static const char *const texts[] = {"10.0.0.300:1", "10.0.0:1", "a b:1", "a..b:1", ".a:1", "a/b:1", "[fe80::x]:1",
                                      "a.7:1", "0123456789012345678901234567890123456789012345678901234567890123:1"};
  struct tt_settings settings = settings_of(600000);
  for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
    struct tt_id id;
    names.asked = 0, names.comes_at = 2, names.error = EAI_NONAME, names.ip = "192.0.2.7";
    assert_int_equal(tt_id_fixed(&id, texts[i], &settings), tuttiInvalidArgument);
    assert_int_equal(names.asked, 1);
    assert_non_null(strstr(tt_last_sentence(), "is not known"));
  }
}

static void keep(void *context, const char *level, const char *sentence)
{
  if (strcmp(level, "WARN") == 0 && strstr(sentence, "/etc/hosts"))
    snprintf(context, TT_SENTENCE_BYTES, "%s", sentence);
}

/* Asks for the launch in a process of its own, for a process asks once. 1: it warned, with name and address. */
static int warns(const char *address, const char *rank, const char *local_size)
{
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    tuttiLaunch_t launch;
    char said[TT_SENTENCE_BYTES] = "";
    tuttiSetLog(keep, said);
    setenv("TUTTI_COMM_ID", address, 1);
    setenv("TUTTI_AUTH", "none", 1);
    setenv("RANK", rank, 1);
    setenv("WORLD_SIZE", "4", 1);
    if (local_size) setenv("LOCAL_RANK", rank, 1), setenv("LOCAL_WORLD_SIZE", local_size, 1);
    if (tuttiGetLaunch(&launch) != tuttiSuccess) _exit(2);
    if (!said[0]) _exit(0);
    _exit(strstr(said, "\"box:29500\"") && strstr(said, " 127.0.1.1:29500 ") ? 1 : 3);
  }
  int status;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static void rank_0_warns_of_a_name_at_a_loopback_address(void **state)
{
  (void)state;
  names.asked = 0, names.comes_at = 1, names.ip = "127.0.1.1";
  assert_int_equal(warns("box:29500", "0", NULL), 1);
  assert_int_equal(warns("box:29500", "0", "2"), 1);
  assert_int_equal(warns("box:29500", "0", "4"), 0); /* all are on this host */
  assert_int_equal(warns("box:29500", "1", NULL), 0);
  assert_int_equal(warns("localhost:29500", "0", NULL), 0);
  assert_int_equal(warns("127.0.1.1:29500", "0", NULL), 0);
  names.ip = "192.0.2.7";
  assert_int_equal(warns("box:29500", "0", NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_name_that_comes_late_is_waited_for),
      cmocka_unit_test(a_name_that_never_comes_is_an_error_at_the_end),
      cmocka_unit_test(the_wait_for_a_name_counts_in_the_limit_once),
      cmocka_unit_test(what_cannot_be_a_name_is_an_error_at_once),
      cmocka_unit_test(rank_0_warns_of_a_name_at_a_loopback_address),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
