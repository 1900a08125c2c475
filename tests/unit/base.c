/* SPDX-License-Identifier: BSD-3-Clause */
/* Settings, call words and texts, the life of processes. */
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/base.h"
#include "base/copy.h"
#include "base/process.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static int says(const char *words)
{
  return strstr(tt_last_sentence(), words) != NULL;
}

/* ---- settings ---- */

static void unset_settings_take_their_defaults(void **state)
{
  (void)state;
  struct tt_settings settings;
  setenv("TUTTI_TIMEOUT_MS", "", 1); /* empty counts as unset */
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_int_equal(settings.timeout_ms, 1800000);
  assert_string_equal(settings.transports, "shm,verbs,tcp");
  assert_int_equal(settings.auth, 1);
  unsetenv("TUTTI_TIMEOUT_MS");
}

static void bytes_may_have_a_suffix(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    int64_t value;
  } trials[] = {{"4096", 4096}, {"0", 0}, {"7k", 7168}, {"128M", 128 << 20}, {"3MiB", 3 << 20},
                {"1024G", (int64_t)1 << 40}, {"1.5M", 3 << 19}, {"1e6", 1000000}, {"8B", 8}};
  for (size_t t = 0; t < sizeof trials / sizeof trials[0]; t++) {
    struct tt_settings settings;
    setenv("TUTTI_FUSION_BYTES", trials[t].text, 1);
    assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
    assert_int_equal(settings.fusion_bytes, trials[t].value);
  }
  unsetenv("TUTTI_FUSION_BYTES");
}

/* sizes.csv has a text and its bytes in each line, nothing where it is no size; perf.sizes reads it in Python. */
static void sizes_are_read_as_the_table_says(void **state)
{
  (void)state;
  char line[128];
  int n = 0;
  FILE *table = fopen(SIZES, "re");
  assert_non_null(table);
  assert_non_null(fgets(line, sizeof line, table)); /* the head */
  while (fgets(line, sizeof line, table)) {
    char *comma = strchr(line, ',');
    const char *at = line;
    uint64_t got = 77;
    size_t size = 77;
    assert_non_null(comma);
    *comma = 0;
    int is_size = comma[1] != '\n';
    unsigned long long wanted = strtoull(comma + 1, NULL, 10);
    int read = tt_bytes_read(&at, &got) && !*at;
    if (read != is_size || (is_size && got != wanted))
      fail_msg("\"%s\": read: %d, %llu", line, read, (unsigned long long)got);
    int is_taken = is_size && wanted <= SIZE_MAX / 4;
    assert_int_equal(tuttiReadSize(line, &size), is_taken ? tuttiSuccess : tuttiInvalidArgument);
    assert_true(size == (is_taken ? wanted : 77));
    n++;
  }
  assert_int_equal(fclose(table), 0);
  assert_true(n > 90);
}

static void a_wrong_setting_is_named_with_value_and_range(void **state)
{
  (void)state;
  static const struct {
    const char *name, *value, *wanted;
  } wrong[] = {
      {"TUTTI_TIMEOUT_MS", "-1", "from 0 to"},
      {"TUTTI_TIMEOUT_MS", "10s", "number of ms"},
      {"TUTTI_TIMEOUT_MS", "10K", "number of ms"},
      {"TUTTI_RADIX", "1", "set it to 0, or to a whole number of ranks from 2 to 65535"},
      {"TUTTI_SHM_SLOT_BYTES", "1M", "to 131072, as 4096, 64K or 128KiB"},
      {"TUTTI_FUSION_BYTES", "2T", "whole number of bytes from 0 to 1099511627776, as 4096, 64K, 1.5M or 2GiB"},
      {"TUTTI_FUSION_BYTES", "0.1K", "whole number of bytes from 0 to"},
      {"TUTTI_FUSION_BYTES", "M", "from 0 to"},
      {"TUTTI_FUSION_BYTES", "1.5", "from 0 to"},
      {"TUTTI_FUSION_BYTES", "1.M", "from 0 to"},
      {"TUTTI_FUSION_BYTES", "1MB", "from 0 to"},
      {"TUTTI_FUSION_BYTES", "2000G", "from 0 to"},
      {"TUTTI_FUSION_BYTES", "99999999999G", "from 0 to"},
      {"TUTTI_LANES", "0", "from 1 to"},
      {"TUTTI_LANES", "9999999999999999999999", "from 1 to"},
      {"TUTTI_TCP_CRC", "maybe", "auto|on|off"},
      {"TUTTI_SOCKET_FAMILY", "AF_INET7", "AF_INET6"},
      {"TUTTI_WIRE_TYPE", "float16", "config|float|half|bfloat16"},
      {"TUTTI_DEBUG", "LOUD", "NONE|VERSION|WARN"},
  };
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    struct tt_settings settings = {.lanes = 77};
    setenv(wrong[w].name, wrong[w].value, 1);
    assert_int_equal(tt_settings_load(&settings), tuttiInvalidArgument);
    assert_true(says(wrong[w].name) && says(wrong[w].value) && says(wrong[w].wanted));
    assert_int_equal(settings.lanes, 77);
    unsetenv(wrong[w].name);
    setenv("TUTTI_DEBUG", "NONE", 1);
  }
  char text[TT_SETTING_TEXT_BYTES + 8];
  struct tt_settings settings;
  memset(text, 'x', sizeof text);
  text[sizeof text - 1] = 0;
  setenv("TUTTI_KEY_FILE", text, 1);
  assert_int_equal(tt_settings_load(&settings), tuttiInvalidArgument);
  unsetenv("TUTTI_KEY_FILE");
}

static void the_wire_hash_covers_what_must_agree_and_nothing_else(void **state)
{
  (void)state;
  struct tt_settings settings;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  uint64_t hash = tt_settings_wire_hash(&settings);
  settings.timeout_ms++; /* each rank may have its own */
  assert_int_equal(tt_settings_wire_hash(&settings), hash);
  settings.lanes++;
  assert_int_not_equal(tt_settings_wire_hash(&settings), hash);
  settings.lanes--;
  strcpy(settings.algo, "ring");
  assert_int_not_equal(tt_settings_wire_hash(&settings), hash);
}

static void ranks_with_unlike_settings_are_told_which(void **state)
{
  (void)state;
  struct tt_settings one, other;
  uint8_t a[TT_SETTINGS_MARKS], b[TT_SETTINGS_MARKS];
  char text[64], tiny[8];
  assert_int_equal(tt_settings_load(&one), tuttiSuccess);
  other = one;
  other.timeout_ms++; /* each rank may have its own */
  tt_settings_wire_marks(&one, a);
  tt_settings_wire_marks(&other, b);
  assert_string_equal(tt_settings_unlike_text(a, b, text, sizeof text), "");
  other.wire_type = 2;
  tt_settings_wire_marks(&other, b);
  assert_string_equal(tt_settings_unlike_text(a, b, text, sizeof text), "TUTTI_WIRE_TYPE");
  strcpy(other.algo, "ring");
  other.lanes++;
  tt_settings_wire_marks(&other, b);
  assert_string_equal(tt_settings_unlike_text(a, b, text, sizeof text), "TUTTI_ALGO, TUTTI_LANES, TUTTI_WIRE_TYPE");
  assert_string_equal(tt_settings_unlike_text(b, a, tiny, sizeof tiny), "TUTTI_A");
}

/* ---- calls ---- */

static void words_are_equal_for_equal_calls_only(void **state)
{
  (void)state;
  const struct tt_call call = {.op = 5, .count = 1000, .collective = TT_ALL_REDUCE, .type = 7, .redop = 0, .root = -1};
  struct tt_call others[9];
  for (int i = 0; i < 9; i++) others[i] = call;
  others[0].op++;
  others[1].count++;
  others[2].type++;
  others[3].redop++;
  others[4].algo++;
  others[5].root++;
  others[6].form = TT_FORM_REPORT;
  others[7].form = (uint64_t)(1 + tuttiFloat16) << TT_FORM_WIRE_SHIFT;
  others[8].form = (uint64_t)1 << TT_FORM_AFTER_SHIFT;
  struct tt_call same = call;
  assert_int_equal(tt_call_word(&same), tt_call_word(&call));
  assert_int_equal(tt_word_op(tt_call_word(&call)), 5);
  for (int i = 0; i < 9; i++) {
    assert_int_not_equal(tt_call_word(&others[i]), tt_call_word(&call));
    assert_int_equal(tt_call_word(&others[i]) & TT_WORD_OVERFLOW, 0);
  }
}

static void counts_that_are_near_have_different_words(void **state)
{
  (void)state;
  struct tt_call a = {.op = 1, .collective = TT_ALL_REDUCE, .type = 7, .root = -1}, b = a;
  for (uint64_t count = 0; count < 100000; count++) {
    a.count = count;
    b.count = count + 1;
    assert_int_not_equal(tt_call_word(&a), tt_call_word(&b));
  }
}

static void a_call_reads_as_it_was_written(void **state)
{
  (void)state;
  char text[TT_CALL_TEXT_BYTES], tiny[8];
  struct tt_call exchange = {.op = 1};
  struct tt_call call = {.op = 12, .count = 1024, .collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "AllReduce #12 (count 1024, float, sum)");
  call.collective = 250; /* from a hostile peer */
  call.type = call.redop = 255;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "unknown call #12 (count 1024, ?)");
  call = (struct tt_call){.op = 3, .count = 8, .collective = TT_GATHER, .type = tuttiInt8, .root = 2};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Gather #3 (count 8, int8, root 2)");
  call = (struct tt_call){.op = 3, .count = 4096, .collective = TT_PAIRS, .root = 2};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Send/Recv #3 (4096 bytes, with rank 2)");
  call.form = TT_FORM_SENDS | TT_FORM_LONE;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Send #3 (4096 bytes, to rank 2)");
  call.form = TT_FORM_RECVS;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Recv #3 (4096 bytes, from rank 2)");
  call.form = 0;
  call.root = -1;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Send/Recv #3 (4096 bytes)");
  call = (struct tt_call){.collective = TT_ALL_REDUCE, .redop = TT_PREMUL_SUM, .root = -1};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "AllReduce #0 (count 0, int8, mulsum)");
  struct tt_call gather = {.op = 2, .count = 8, .collective = TT_ALL_GATHER, .type = tuttiUint8, .root = -1};
  call = gather;
  call.form = TT_FORM_SPLIT;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "CommSplit #2");
  assert_int_not_equal(tt_call_word(&call), tt_call_word(&gather));
  call.form = TT_FORM_GROW;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "CommGrow #2");
  tt_call_before(&exchange, &call);
  assert_string_equal(tt_call_text(&exchange, text, sizeof text), "Learning #1 before CommGrow #2");
  call.form = TT_FORM_BARRIER;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Barrier #2");
  tt_call_before(&exchange, &call);
  assert_string_equal(tt_call_text(&exchange, text, sizeof text), "Learning #1 before Barrier #2");
  assert_int_not_equal(tt_call_word(&call), tt_call_word(&gather));
  memset(&call, 250, sizeof call);
  tt_call_text(&call, tiny, sizeof tiny);
  assert_int_equal(strlen(tiny), sizeof tiny - 1);
}

static uint64_t form_of(int wire, int reports, float after)
{
  uint32_t bits;
  memcpy(&bits, &after, sizeof bits);
  return (wire < 0 ? 0 : (uint64_t)(1 + wire) << TT_FORM_WIRE_SHIFT) | (reports ? TT_FORM_REPORT : 0) |
         (after != 1 ? (uint64_t)bits << TT_FORM_AFTER_SHIFT : 0);
}

static void a_call_tells_how_it_is_carried_out(void **state)
{
  (void)state;
  char text[TT_CALL_TEXT_BYTES];
  struct tt_call call = {.op = 3, .count = 8, .collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
  assert_true(tt_call_wire_type(&call) == tuttiFloat && tt_call_after(&call) == 1);
  call.form = form_of(tuttiFloat16, 1, 1);
  assert_true(tt_call_wire_type(&call) == tuttiFloat16 && tt_call_after(&call) == 1);
  assert_string_equal(tt_call_text(&call, text, sizeof text),
                      "AllReduce #3 (count 8, float as half, sum, overflow report)");
  call.form = form_of(tuttiBfloat16, 0, -0.5f);
  assert_true(tt_call_wire_type(&call) == tuttiBfloat16 && tt_call_after(&call) == -0.5f);
  assert_string_equal(tt_call_text(&call, text, sizeof text),
                      "AllReduce #3 (count 8, float as bfloat16, sum, scale_after -0.5)");
  call.form = form_of(-1, 1, 3);
  assert_true(tt_call_wire_type(&call) == tuttiFloat && tt_call_after(&call) == 3);
  assert_string_equal(tt_call_text(&call, text, sizeof text),
                      "AllReduce #3 (count 8, float, sum, overflow report, scale_after 3)");
  call = (struct tt_call){.op = 9, .count = 1, .collective = TT_REDUCE, .type = tuttiFloat, .redop = tuttiMax,
                          .root = 4, .form = form_of(tuttiFloat16, 0, 1)};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "Reduce #9 (count 1, float as half, max, root 4)");
  /* The longest of a machine that exists is told whole. */
  call = (struct tt_call){.op = 4294967295u, .count = 100000000000000u, .collective = TT_REDUCE_SCATTER,
                          .type = tuttiFloat, .redop = TT_PREMUL_SUM, .root = -1,
                          .form = form_of(tuttiBfloat16, 1, -0.000123456789f)};
  assert_int_equal(tt_call_text(&call, text, sizeof text)[strlen(text) - 1], ')');
}

static void counts_of_all_ranks_are_part_of_the_form(void **state)
{
  (void)state;
  char text[TT_CALL_TEXT_BYTES];
  size_t counts[5] = {3, 0, 7, 100000, 1};
  uint64_t form = tt_call_form_counts(counts, 5);
  assert_true(form & TT_FORM_COUNTS && tt_call_form_counts(counts, 5) == form);
  for (int a = 0; a < 5; a++)
    for (int b = 0; b < 5; b++) { /* also those with the same sum */
      if (a == b || !counts[b]) continue;
      counts[a]++;
      counts[b]--;
      assert_true(tt_call_form_counts(counts, 5) != form);
      counts[a]--;
      counts[b]++;
    }
  struct tt_call call = {.op = 3, .count = 20, .collective = TT_ALL_GATHER, .type = tuttiFloat, .root = -1,
                         .form = TT_FORM_COUNTS | (uint64_t)0xab << TT_FORM_AFTER_SHIFT};
  assert_true(tt_call_after(&call) == 1 && tt_call_wire_type(&call) == tuttiFloat);
  assert_string_equal(tt_call_text(&call, text, sizeof text),
                      "AllGatherV #3 (counts of 20 on average with hash 000000ab, float)");
  call.collective = TT_REDUCE_SCATTER;
  call.form |= form_of(tuttiBfloat16, 0, 1);
  assert_string_equal(tt_call_text(&call, text, sizeof text),
                      "ReduceScatterV #3 (counts of 20 on average with hash 000000ab, float as bfloat16, sum)");
  call = (struct tt_call){.op = 4294967295u, .count = 100000000000000u, .collective = TT_REDUCE_SCATTER,
                          .type = tuttiFloat, .redop = TT_PREMUL_SUM, .root = -1, .form = call.form};
  assert_int_equal(tt_call_text(&call, text, sizeof text)[strlen(text) - 1], ')');
  call = (struct tt_call){.op = 2, .count = 40, .collective = TT_PAIRS, .root = 1, .form = TT_FORM_COUNTS};
  assert_string_equal(tt_call_text(&call, text, sizeof text), "AlltoAllV #2 (40 bytes, with rank 1)");
  call.form |= TT_FORM_SENDS;
  assert_string_equal(tt_call_text(&call, text, sizeof text), "AlltoAllV #2 (40 bytes, to rank 1)");
}

/* ---- processes ---- */

static void a_process_is_told_alive_stopped_dead_and_replaced(void **state)
{
  (void)state;
  int status;
  pid_t child = fork();
  if (child == 0)
    for (;;) pause();
  uint64_t start = tt_process_start(child);
  assert_int_not_equal(start, 0);
  assert_int_equal(tt_process_life(child, start), TT_LIFE_ALIVE);
  assert_int_equal(tt_process_life(child, start + 1), TT_LIFE_DEAD); /* another process with that pid */
  kill(child, SIGSTOP);
  waitpid(child, &status, WUNTRACED);
  assert_int_equal(tt_process_life(child, start), TT_LIFE_FROZEN);
  kill(child, SIGKILL);
  siginfo_t info;
  waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT);
  assert_int_equal(tt_process_life(child, start), TT_LIFE_DEAD); /* a zombie */
  waitpid(child, &status, 0);
  assert_int_equal(tt_process_life(child, start), TT_LIFE_DEAD);
}

static void allocation_fails_where_it_is_told_to(void **state)
{
  (void)state;
  tt_alloc_fail_at(2);
  void *first = tt_alloc(1, 8), *second = tt_alloc(1, 8), *third = tt_alloc(1, 8);
  assert_non_null(first);
  assert_null(second);
  assert_non_null(third);
  assert_null(tt_alloc(SIZE_MAX / 2, 4));
  tt_free(first);
  tt_free(third);
  tt_free(NULL);
}

/* Set: the kernel's, which has 4,096 processors then, is this. */
static const cpu_set_t *large_machine;

int sched_getaffinity(pid_t pid, size_t len, cpu_set_t *set)
{
  memset(set, 0, len);
  if (!large_machine) return syscall(SYS_sched_getaffinity, pid, len, set) < 0 ? -1 : 0;
  if (len < 512) {
    errno = EINVAL;
    return -1;
  }
  memcpy(set, large_machine, 512);
  return 0;
}

static void more_than_1024_processors_are_counted(void **state)
{
  (void)state;
  cpu_set_t set[4];
  uint8_t mask[TT_CORE_MASK_BYTES], wanted[TT_CORE_MASK_BYTES] = {0};
  memset(set, 0, sizeof set);
  CPU_SET_S(5, sizeof set, set);
  CPU_SET_S(1500, sizeof set, set);
  CPU_SET_S(4095, sizeof set, set);
  large_machine = set;
  wanted[0] = 1 << 5;
  wanted[(1500 - 1024) / 8] = 1 << 1500 % 8;
  wanted[TT_CORE_MASK_BYTES - 1] = 1 << 7;
  tt_host_core_mask(mask);
  assert_int_equal(tt_host_cores(), 3);
  assert_memory_equal(mask, wanted, sizeof mask);
  large_machine = NULL;
}

/* Around every border of the pieces, at every distance of addresses that the two ways of glibc tell apart. */
static void long_copies_are_exact_in_pieces_and_at_once(void **state)
{
  (void)state;
  static uint8_t from[3 * TT_COPY_PIECE + 128], to[sizeof from], wanted[sizeof from];
  for (size_t i = 0; i < sizeof from; i++) from[i] = (uint8_t)(i * 37 + i / 251 + 1);
  const int found = tt_process.copies_in_pieces;
  for (int pieces = 0; pieces < 2; pieces++)
    for (size_t n = 0; n <= 3 * TT_COPY_PIECE; n += n % TT_COPY_PIECE < 2 || n % TT_COPY_PIECE > 2040 ? 1 : 60)
      for (size_t at = 0; at < 64; at += 21) {
        tt_process.copies_in_pieces = pieces;
        memset(to, 0, sizeof to);
        memset(wanted, 0, sizeof wanted);
        memcpy(wanted + at, from + at / 2, n);
        tt_memcpy(to + at, from + at / 2, n);
        assert_memory_equal(to, wanted, sizeof to);
      }
  tt_process.copies_in_pieces = found;
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(unset_settings_take_their_defaults),
      cmocka_unit_test(bytes_may_have_a_suffix),
      cmocka_unit_test(sizes_are_read_as_the_table_says),
      cmocka_unit_test(a_wrong_setting_is_named_with_value_and_range),
      cmocka_unit_test(the_wire_hash_covers_what_must_agree_and_nothing_else),
      cmocka_unit_test(ranks_with_unlike_settings_are_told_which),
      cmocka_unit_test(words_are_equal_for_equal_calls_only),
      cmocka_unit_test(counts_that_are_near_have_different_words),
      cmocka_unit_test(a_call_reads_as_it_was_written),
      cmocka_unit_test(a_call_tells_how_it_is_carried_out),
      cmocka_unit_test(counts_of_all_ranks_are_part_of_the_form),
      cmocka_unit_test(a_process_is_told_alive_stopped_dead_and_replaced),
      cmocka_unit_test(allocation_fails_where_it_is_told_to),
      cmocka_unit_test(long_copies_are_exact_in_pieces_and_at_once),
      cmocka_unit_test(more_than_1024_processors_are_counted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
