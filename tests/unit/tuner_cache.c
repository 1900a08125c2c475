/* SPDX-License-Identifier: BSD-3-Clause */
/* The file that keeps what pairs of ranks take: it comes back as it was written, and whatever is wrong with it, it
 * counts as no file.
 * Labels: plain, planner. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tuner/cache.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* A folder of its own for each test. */
struct scene {
  struct tt_settings settings;
  char folder[64], path[TT_CACHE_PATH];
};

static void scene_make(struct scene *s)
{
  memset(s, 0, sizeof *s);
  strcpy(s->folder, "/tmp/tutti-test-XXXXXX");
  assert_non_null(mkdtemp(s->folder));
  snprintf(s->settings.cache, sizeof s->settings.cache, "%s/a/b", s->folder);
  assert_true(tt_cache_path(s->path, &s->settings));
}

static void scene_free(struct scene *s)
{
  char folder[TT_CACHE_PATH];
  unlink(s->path);
  snprintf(folder, sizeof folder, "%s/a/b", s->folder);
  rmdir(folder);
  snprintf(folder, sizeof folder, "%s/a", s->folder);
  rmdir(folder);
  assert_int_equal(rmdir(s->folder), 0); /* nothing else was left there */
}

static const struct tt_correction some = {3, -2};

static void some_store(const struct scene *s)
{
  struct tt_cache cache = {.n = 0};
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some);
  tt_cache_store(&cache, &s->settings);
}

static int lines_of(const struct scene *s)
{
  struct tt_cache cache = {.n = 7};
  tt_cache_load(&cache, &s->settings);
  return cache.n;
}

static void file_read(const struct scene *s, char text[4096])
{
  FILE *file = fopen(s->path, "r");
  assert_non_null(file);
  text[fread(text, 1, 4095, file)] = 0;
  fclose(file);
}

static void file_write(const struct scene *s, const char *text, size_t len)
{
  FILE *file = fopen(s->path, "w");
  assert_non_null(file);
  assert_int_equal(fwrite(text, 1, len, file), len);
  fclose(file);
}

static void what_is_stored_is_loaded(void **state)
{
  (void)state;
  struct scene s;
  struct tt_cache cache = {.n = 0}, loaded;
  struct stat status;
  scene_make(&s);
  assert_int_equal(lines_of(&s), 0);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", (struct tt_correction){1, 1});
  tt_cache_put(&cache, TT_LINK_NET, "tcp", (struct tt_correction){-TT_CORRECTION_MOST, TT_CORRECTION_MOST});
  tt_cache_put(&cache, TT_LINK_CACHE, "tcp", (struct tt_correction){0, 0});
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some); /* instead */
  tt_cache_put(&cache, TT_LINK_NODE, "shm", TT_CORRECTION_NONE);
  assert_int_equal(cache.n, 3);
  tt_cache_store(&cache, &s.settings);
  tt_cache_load(&loaded, &s.settings);
  assert_int_equal(loaded.n, 3);
  for (int i = 0; i < 3; i++) {
    struct tt_correction got = tt_cache_get(&loaded, cache.lines[i].kind, cache.lines[i].transport, NULL);
    assert_int_equal(got.alpha, cache.lines[i].correction.alpha);
    assert_int_equal(got.beta, cache.lines[i].correction.beta);
  }
  assert_false(tt_correction_known(tt_cache_get(&loaded, TT_LINK_NODE, "shm", NULL)));
  assert_false(tt_correction_known(tt_cache_get(&loaded, TT_LINK_NET, "shm", NULL)));
  assert_int_equal(stat(s.path, &status), 0);
  assert_int_equal(status.st_mode & 0777, 0600);
  assert_int_equal(stat(s.settings.cache, &status), 0);
  assert_int_equal(status.st_mode & 0777, 0700);
  scene_free(&s);
}

/* The n-th of some that differ in key, ranks, shape and choice. */
static struct tt_cache_learnt learnt_make(int n)
{
  const int collective = n % 2 ? TT_ALL_REDUCE : TT_ALL_GATHER;
  int algo = 0;
  while (tt_algos[algo].collective != collective) algo++;
  return (struct tt_cache_learnt){
      .key = 0xfedcba9876543210u ^ (uint64_t)n,
      .ranks = n + 2,
      .nodes = 1 + n % 3,
      .cores = 1 + n % 4,
      .transport = "shm",
      .date = "2001-02-03",
      .learnt = {.collective = (uint8_t)collective,
                 .size_class = (uint8_t)(n % TT_SIZE_CLASSES),
                 .width = (uint8_t)(n % TT_WIDTHS),
                 .memory = (uint8_t)(n % TT_MEMORIES),
                 .ns = 1 + 1000000007ll * n,
                 .choice = {(uint8_t)algo, -1, (uint16_t)(2 * (n % 5)), 4096u << n % 7}}};
}

static int same_learnt(const struct tt_cache_learnt *a, const struct tt_cache_learnt *b)
{
  return a->key == b->key && a->ranks == b->ranks && a->nodes == b->nodes && a->cores == b->cores &&
         strcmp(a->transport, b->transport) == 0 && a->learnt.ns == b->learnt.ns &&
         a->learnt.collective == b->learnt.collective && a->learnt.size_class == b->learnt.size_class &&
         a->learnt.width == b->learnt.width && a->learnt.memory == b->learnt.memory && strcmp(a->date, b->date) == 0 &&
         tt_choices_same(&a->learnt.choice, &b->learnt.choice);
}

static void what_is_learnt_is_loaded_the_newest_last(void **state)
{
  (void)state;
  struct scene s;
  struct tt_cache cache = {.n = 0}, loaded;
  scene_make(&s);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some);
  for (int n = 0; n < TT_CACHE_LEARNT + 5; n++) {
    struct tt_cache_learnt line = learnt_make(n);
    tt_cache_learn(&cache, &line);
  }
  struct tt_cache_learnt again = learnt_make(20);
  again.learnt.ns = 5;
  tt_cache_learn(&cache, &again); /* instead, and as the last one */
  tt_cache_store(&cache, &s.settings);
  tt_cache_load(&loaded, &s.settings);
  assert_int_equal(loaded.n, 1);
  assert_int_equal(loaded.nlearnt, TT_CACHE_LEARNT);
  assert_true(same_learnt(&loaded.learnt[TT_CACHE_LEARNT - 1], &again));
  for (int k = 0, n = 5; k < TT_CACHE_LEARNT - 1; k++, n++) {
    n += n == 20;
    struct tt_cache_learnt line = learnt_make(n);
    assert_true(same_learnt(&loaded.learnt[k], &line));
  }
  scene_free(&s);
}

static void more_than_there_is_room_for_is_left_out(void **state)
{
  (void)state;
  struct scene s;
  struct tt_cache cache = {.n = 0};
  scene_make(&s);
  for (int i = 0; i < 2 * TT_CACHE_LINES; i++) {
    char name[TT_PROFILE_NAME];
    snprintf(name, sizeof name, "%d-a-name-of-some-length", i);
    tt_cache_put(&cache, TT_LINK_CACHE, name, some);
  }
  assert_int_equal(cache.n, TT_CACHE_LINES);
  tt_cache_store(&cache, &s.settings);
  assert_int_equal(lines_of(&s), TT_CACHE_LINES);
  scene_free(&s);
}

/* The file then has a line of either kind, or more than one of them. */
static void learnt_store(const struct scene *s)
{
  struct tt_cache cache = {.n = 0};
  struct tt_cache_learnt line = learnt_make(1);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some);
  tt_cache_learn(&cache, &line);
  tt_cache_store(&cache, &s->settings);
}

/* The first `was` of the file becomes `is`. */
static void check_replaced(const struct scene *s, const char *was, const char *is)
{
  char text[4096], other[8192];
  learnt_store(s);
  file_read(s, text);
  char *at = strstr(text, was);
  assert_non_null(at);
  snprintf(other, sizeof other, "%.*s%s%s", (int)(at - text), text, is, at + strlen(was));
  file_write(s, other, strlen(other));
  if (lines_of(s) != 0) fail_msg("with \"%s\" in place of \"%s\" the file is read", is, was);
  some_store(s); /* instead */
  assert_int_equal(lines_of(s), 1);
}

static void a_file_of_another_machine_or_version_is_ignored(void **state)
{
  (void)state;
  struct scene s;
  scene_make(&s);
  check_replaced(&s, "tutti cache 5", "tutti cache 4");
  check_replaced(&s, "machine host ", "machine host x");
  check_replaced(&s, "cpu \"", "cpu \"x");
  check_replaced(&s, "cores ", "cores 9");
  check_replaced(&s, "version 0", "version 9");
  scene_free(&s);
}

static void a_broken_file_is_ignored(void **state)
{
  (void)state;
  struct scene s;
  char text[4096];
  scene_make(&s);
  check_replaced(&s, "link", "lonk");
  check_replaced(&s, "kind cache", "kind attic");
  check_replaced(&s, "kind cache", "kind cachecachecache");
  check_replaced(&s, "shm", "shmshmshmshmshmshmshmshmshmshmshmshmshmshmshmshmshmshm");
  check_replaced(&s, "alpha 3", "alpha 7"); /* no link is that slow */
  check_replaced(&s, "beta -2", "beta -7");
  check_replaced(&s, "alpha 3", "alpha -99999999999");
  check_replaced(&s, "beta -2", "beta -2 gamma 1");
  check_replaced(&s, "beta -2", "beta");
  check_replaced(&s, "date 2001-02-03\n", "date 2001-02-03"); /* cut off */
  check_replaced(&s, "date 2001-02-03", "date 2001-02-03T");
  check_replaced(&s, " date 2001-02-03", "");
  check_replaced(&s, "learnt", "lernt");
  check_replaced(&s, "key f", "key x");
  check_replaced(&s, "collective all_reduce", "collective all_seduce");
  check_replaced(&s, "collective all_reduce", "collective broadcast"); /* is not learnt */
  check_replaced(&s, "width 1", "width 5");
  check_replaced(&s, "class 1", "class 49");
  check_replaced(&s, "memory tutti", "memory heap");
  check_replaced(&s, "algo ", "algo x");
  check_replaced(&s, "middle -", "middle x");
  check_replaced(&s, "radix 2", "radix 65536");
  check_replaced(&s, "radix 2", "radix 1");
  check_replaced(&s, "block 8192", "block 0");
  check_replaced(&s, "ns 1000000008", "ns 0");
  check_replaced(&s, "ns 1000000008", "ns -5");
  check_replaced(&s, "ns 1000000008", "ns 1000000008 us");
  some_store(&s);
  file_read(&s, text);
  for (size_t len = 0; len + 1 < strlen(text); len++) {
    file_write(&s, text, len);
    assert_int_equal(lines_of(&s), 0);
  }
  memset(text, 'x', sizeof text);
  file_write(&s, text, sizeof text);
  assert_int_equal(lines_of(&s), 0);
  memset(text, 0, sizeof text);
  file_write(&s, text, sizeof text);
  assert_int_equal(lines_of(&s), 0);
  scene_free(&s);
}

static void a_file_that_others_may_have_written_is_ignored(void **state)
{
  (void)state;
  struct scene s;
  char aside[TT_CACHE_PATH + 8];
  scene_make(&s);
  some_store(&s);
  assert_int_equal(lines_of(&s), 1);
  assert_int_equal(chmod(s.path, 0620), 0);
  assert_int_equal(lines_of(&s), 0);
  assert_int_equal(chmod(s.path, 0644), 0);
  assert_int_equal(lines_of(&s), 1);
  snprintf(aside, sizeof aside, "%s.aside", s.path);
  assert_int_equal(rename(s.path, aside), 0);
  assert_int_equal(symlink(aside, s.path), 0);
  assert_int_equal(lines_of(&s), 0);
  some_store(&s); /* in place of the link */
  assert_int_equal(lines_of(&s), 1);
  unlink(aside);
  if (geteuid() == 0) {
    assert_int_equal(chown(s.path, 12345, 0), 0);
    assert_int_equal(lines_of(&s), 0);
  }
  unlink(s.path);
  assert_int_equal(mkdir(s.path, 0700), 0);
  assert_int_equal(lines_of(&s), 0);
  some_store(&s); /* it cannot: nothing happens, nothing is left */
  assert_int_equal(rmdir(s.path), 0);
  scene_free(&s);
}

static void the_settings_say_where(void **state)
{
  (void)state;
  struct tt_settings settings = {.cache = "none"};
  char path[TT_CACHE_PATH], other[TT_CACHE_PATH];
  assert_false(tt_cache_wanted(&settings));
  assert_false(tt_cache_path(path, &settings));
  settings.cache[0] = 0;
  assert_true(tt_cache_wanted(&settings));
  unsetenv("XDG_CACHE_HOME");
  unsetenv("HOME");
  assert_false(tt_cache_path(path, &settings));
  setenv("HOME", "/home/me", 1);
  assert_true(tt_cache_path(path, &settings));
  assert_int_equal(strncmp(path, "/home/me/.cache/tutti/", 22), 0);
  setenv("XDG_CACHE_HOME", "/elsewhere", 1);
  assert_true(tt_cache_path(path, &settings));
  assert_int_equal(strncmp(path, "/elsewhere/tutti/", 17), 0);
  strcpy(settings.cache, "/named");
  assert_true(tt_cache_path(path, &settings));
  assert_int_equal(strncmp(path, "/named/", 7), 0);
  assert_null(strchr(path + 7, '/'));
  for (int what = 0; what < 3; what++) { /* what makes it another host, or another way */
    struct tt_settings unlike = settings;
    if (what == 0) strcpy(unlike.host_id, "x");
    if (what == 1) strcpy(unlike.socket_ifname, "x");
    if (what == 2) unlike.socket_family = 1;
    assert_true(tt_cache_path(other, &unlike));
    assert_string_not_equal(path, other);
  }
  memset(settings.cache, '/', sizeof settings.cache - 1);
  settings.cache[sizeof settings.cache - 1] = 0;
  assert_true(tt_cache_path(path, &settings)); /* longest that a setting can be */
}

static void a_home_that_is_missing_stays_so(void **state)
{
  (void)state;
  struct scene s;
  struct tt_cache cache = {.n = 0};
  char home[96], folder[128];
  scene_make(&s);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some);
  snprintf(home, sizeof home, "%s/home", s.folder);
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", home, 1);
  s.settings.cache[0] = 0;
  tt_cache_store(&cache, &s.settings);
  assert_int_equal(access(home, F_OK), -1);
  assert_int_equal(mkdir(home, 0700), 0);
  tt_cache_store(&cache, &s.settings);
  assert_int_equal(lines_of(&s), 1);
  assert_true(tt_cache_path(s.path, &s.settings));
  assert_int_equal(unlink(s.path), 0);
  snprintf(folder, sizeof folder, "%s/.cache/tutti", home);
  assert_int_equal(rmdir(folder), 0);
  snprintf(folder, sizeof folder, "%s/.cache", home);
  assert_int_equal(rmdir(folder), 0);
  assert_int_equal(rmdir(home), 0);
  scene_free(&s);
}

/* Neither does it end the process. */
static void a_limit_on_files_leaves_what_there_was(void **state)
{
  (void)state;
  struct scene s;
  struct rlimit usual, none;
  struct tt_cache cache = {.n = 0};
  scene_make(&s);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", some);
  tt_cache_store(&cache, &s.settings);
  tt_cache_put(&cache, TT_LINK_NODE, "tcp", some);
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &usual), 0);
  none = (struct rlimit){0, usual.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
  tt_cache_store(&cache, &s.settings);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &usual), 0);
  assert_int_equal(lines_of(&s), 1);
  scene_free(&s);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_stored_is_loaded),
      cmocka_unit_test(what_is_learnt_is_loaded_the_newest_last),
      cmocka_unit_test(more_than_there_is_room_for_is_left_out),
      cmocka_unit_test(a_file_of_another_machine_or_version_is_ignored),
      cmocka_unit_test(a_broken_file_is_ignored),
      cmocka_unit_test(a_file_that_others_may_have_written_is_ignored),
      cmocka_unit_test(the_settings_say_where),
      cmocka_unit_test(a_home_that_is_missing_stays_so),
      cmocka_unit_test(a_limit_on_files_leaves_what_there_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
