/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles for a person to look at: tables.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "profiles/profiles.h"
#include "tuner/cache.h"

#define REST "alpha_us 0.2 beta_us_per_mib 81 overhead_us 0.08 points 9 error_percent 3.1\n"
#define SAMPLE "us 0.52 low_us 0.5 high_us 0.6\n"
static const char sample[] =
    "tutti profile 3\nmachine host h cpu \"Some CPU #3 @ 2 GHz\" cores 64 memory m kernel \"\"\n"
    "measured date d command c version v load 0.5\nmeasured date e command c version v load 1.2\n"
    "link kind cache transport shm interface \"\" flows 1 ways 1 from 0 to inf " REST
    "link kind cache transport shm interface \"\" flows 1 ways 2 from 0 to 2K " REST
    "link kind cache transport shm interface \"\" flows 1 ways 2 "
    "from 2K to inf alpha_us 0.5 beta_us_per_mib 70 overhead_us 0 "
    "points 0 error_percent 0\n"
    "link kind cache transport shm interface \"\" flows 16 ways 2 "
    "from 0 to inf alpha_us 0 beta_us_per_mib 0 overhead_us 0 points 0 "
    "error_percent 0\n"
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 0 " SAMPLE
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 1000 " SAMPLE
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 1G us 7 low_us 7 high_us 7\n"
    "reduce type float op sum sources 2 level L1 bytes 1536 gamma_us_per_mib 14.2 error_percent 2\n"
    "anchor collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm "
    "memory tutti bytes 64K us 44.1\n"
    "anchor collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm "
    "memory malloc bytes 8 us 4\n"
    "anchor collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm "
    "memory malloc bytes 1M us 500\n"
    "end\n";

static struct tt_profile parsed(void)
{
  struct tt_profile p;
  FILE *in = fmemopen((void *)(uintptr_t)sample, strlen(sample), "r");
  if (tt_profile_parse(&p, in, "sample") != tuttiSuccess) fail_msg("%s", tt_last_sentence());
  fclose(in);
  return p;
}

static char *shown(const struct tt_profile *p)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(tt_profile_show(p, out), tuttiSuccess);
  fclose(out);
  return text;
}

static void has(const char *text, const char *part)
{
  if (!strstr(text, part)) fail_msg("no \"%s\" in\n%s", part, text);
}

static void tables_say_what_was_measured(void **state)
{
  (void)state;
  struct tt_profile p = parsed(), none = {0};
  char *text = shown(&p), *nothing = shown(&none);
  has(text, "cpu       Some CPU #3 @ 2 GHz, 64 cores\n");
  has(text, "  cache  shm       -             1     2       2K        0.2    12.95        0.08      3.1       9\n");
  has(text, "  cache  shm       -            16     2      inf          0        -           0        0       0\n");
  has(text, "  float     sum           2 L1          1536    73.84        2\n");
  has(text, "  all_reduce     hierarchical+ring                malloc      2   8 to 1M\n"
            "  all_reduce     hierarchical+ring                tutti       1   64K to 64K\n");
  has(text, "measured  d by c, version v, load 0.5\nmeasured  e by c, version v, load 1.2: the machine was busy, ");
  has(nothing, "kernel    -\n");
  assert_null(strstr(nothing, "messages"));
  free(text);
  free(nothing);
  tt_profile_destroy(&p);
}

static void the_busiest_time_is_told_with_the_remedy(void **state)
{
  (void)state;
  char text[TT_SENTENCE_BYTES];
  struct tt_profile p = parsed();
  snprintf(p.name, sizeof p.name, "a.profile");
  assert_ptr_equal(tt_profile_busiest(&p), &p.measured[1]);
  assert_string_equal(tt_profile_busy_text(&p, text),
                      "the profile a.profile was measured while the machine was busy (load 1.2 on 64 cores, at e), so "
                      "its times are too long: measure again on an idle one, with `tutti tune -o a.profile`");
  p.measured[1].load = TT_PROFILE_BUSY;
  assert_null(tt_profile_busiest(&p));
  assert_string_equal(tt_profile_busy_text(&p, text), "");
  tt_profile_destroy(&p);
  assert_null(tt_profile_busiest(tt_profile_shipped()));
}

static void what_was_measured_is_missing_no_more(void **state)
{
  (void)state;
  struct tt_profile p = parsed();
  const struct tt_profile_missing missing[] = {{4, 1, "shm", "links", 0}, {4, 1, "tcp", "reduce kernels", 0}};
  for (int i = 0; i < 2; i++) assert_int_equal(tt_profile_add_missing(&p, &missing[i]), tuttiSuccess);
  char *text = shown(&p);
  has(text, "missing   4 ranks over shm, from links on\nmissing   4 ranks over tcp, from reduce kernels on\n");
  free(text);
  tt_profile_remove_missing(&p, 3, 1, "tcp");
  tt_profile_remove_missing(&p, 4, 2, "tcp");
  assert_int_equal(p.nmissing, 2);
  tt_profile_remove_missing(&p, 4, 1, "shm");
  assert_int_equal(p.nmissing, 1);
  assert_string_equal(p.missing[0].transport, "tcp");
  tt_profile_destroy(&p);
}

static void an_empty_profile_is_written_and_shown(void **state)
{
  (void)state;
  struct tt_profile none = {.nlinks = 0}, read;
  FILE *out = tmpfile();
  char text[128];
  assert_non_null(out);
  assert_int_equal(tt_profile_load(&read, "/none/of/it"), tuttiInvalidArgument);
  assert_int_equal(tt_profile_print(&none, out), tuttiSuccess);
  snprintf(text, sizeof text, "/proc/self/fd/%d", fileno(out));
  fflush(out);
  assert_int_equal(tt_profile_load(&read, text), tuttiSuccess);
  assert_int_equal(tt_profile_show(&read, out), tuttiSuccess);
  tt_profile_destroy(&read);
  fclose(out);
}

static void every_failed_allocation_is_told(void **state)
{
  (void)state;
  struct tt_profile p = parsed();
  FILE *out = fopen("/dev/null", "w");
  for (long k = 1; k <= 7; k++) {
    tt_alloc_fail_at(k);
    assert_int_equal(tt_profile_show(&p, out), k <= 6 ? tuttiSystemError : tuttiSuccess);
  }
  tt_alloc_fail_at(0);
  fclose(out);
  tt_profile_destroy(&p);
}

static char *cache_shown(const struct tt_settings *settings)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_int_equal(tt_profile_cache_show(settings, out), tuttiSuccess);
  fclose(out);
  return text;
}

static void a_cache_shows_what_is_known_and_since_when(void **state)
{
  struct tt_settings settings = {.lanes = 4};
  struct tt_cache cache = {.n = 0};
  char folder[] = "/tmp/tutti-test-XXXXXX", path[TT_CACHE_PATH], want[256];
  (void)state;
  assert_non_null(mkdtemp(folder));
  snprintf(settings.cache, sizeof settings.cache, "%s", folder);
  char *text = cache_shown(&settings);
  has(text, folder);
  has(text, "nothing was measured or learnt yet");
  free(text);
  tt_cache_put(&cache, TT_LINK_CACHE, "shm", (struct tt_correction){2, -1});
  tt_cache_learn(&cache, &(struct tt_cache_learnt){
      .ranks = 4, .nodes = 2, .cores = 2, .transport = "tcp", .date = "2026-11-20",
      .learnt = {.collective = TT_ALL_REDUCE, .size_class = 19, .width = 2, .ns = 31250,
                 .choice = {(uint8_t)(tt_algo_find(TT_ALL_REDUCE, "ring") - tt_algos), -1, 0, 8192}}});
  tt_cache_store(&cache, &settings);
  text = cache_shown(&settings);
  snprintf(want, sizeof want, "  cache  shm              4            0.5   %s\n", cache.lines[0].date);
  has(text, want);
  has(text, "  all_reduce         4     2 malloc      6 KiB     4 B   ring                            8 KiB      "
      "31.25   2026-11-20\n");
  free(text);
  assert_true(tt_cache_path(path, &settings));
  unlink(path);
  rmdir(folder);
  strcpy(settings.cache, "none");
  assert_int_equal(tt_profile_cache_show(&settings, stdout), tuttiInvalidUsage);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tables_say_what_was_measured),
      cmocka_unit_test(the_busiest_time_is_told_with_the_remedy),
      cmocka_unit_test(what_was_measured_is_missing_no_more),
      cmocka_unit_test(an_empty_profile_is_written_and_shown),
      cmocka_unit_test(a_cache_shows_what_is_known_and_since_when),
      cmocka_unit_test(every_failed_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
