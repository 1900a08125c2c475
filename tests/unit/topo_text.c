/* SPDX-License-Identifier: BSD-3-Clause */
/* Topologies as text: what it means, what is refused and in which words.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topology_text.h"

#define HEAD "tutti topology 1\n"

static tuttiResult_t parse_bytes(struct tt_topology *t, const char *text, size_t len, int32_t nranks)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
  assert_non_null(in);
  tuttiResult_t result = tt_topology_parse(t, in, "here.txt", nranks);
  fclose(in);
  return result;
}

static struct tt_topology parsed(const char *text)
{
  struct tt_topology t;
  if (parse_bytes(&t, text, strlen(text), 0) != tuttiSuccess) fail_msg("%s\n%s", tt_last_sentence(), text);
  return t;
}

static char *printed(const struct tt_topology *t)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(topology_print(t, out), tuttiSuccess);
  fclose(out);
  return text;
}

/* Both texts are about the same machine. */
static void means(const char *text, const char *other)
{
  struct tt_topology a = parsed(text), b = parsed(other);
  char *one = printed(&a), *two = printed(&b);
  assert_string_equal(one, two);
  free(one);
  free(two);
  tt_topology_destroy(&a);
  tt_topology_destroy(&b);
}

static const char canonical[] =
    HEAD "node 0 ranks 0-3,8\n"
         "node 1 ranks 4-7,9-10\n"
         "numa 0/0 ranks 0-1\n"
         "numa 0/1 ranks 2,8\n"
         "numa 1/2 ranks 5-7\n"
         "cache 0/0/0 ranks 0-1\n"
         "cache 0/1/1 ranks 8\n"
         "cache 1/-/2 ranks 9-10\n"
         "link self alpha_us 0 beta_us_per_mib 80\n"
         "link cache alpha_us 0.3 beta_us_per_mib 80\n"
         "link numa alpha_us 0.4 beta_us_per_mib 100\n"
         "link node alpha_us 0.1234567890123 beta_us_per_mib 130\n"
         "link net alpha_us 1e-07 beta_us_per_mib 1e+12\n"
         "gamma_us_per_mib 0.1\n";

static void the_canonical_text_prints_as_it_was_read(void **state)
{
  (void)state;
  struct tt_topology t = parsed(canonical);
  char *text = printed(&t);
  assert_string_equal(text, canonical);
  assert_int_equal(t.nranks, 11);
  assert_int_equal(t.nnodes, 2);
  assert_int_equal(t.nnumas, 3);
  assert_int_equal(t.ncaches, 3);
  assert_int_equal(t.numa[3], -1);
  assert_int_equal(t.cache[2], -1);
  assert_int_equal(t.cache[10], 2);
  assert_true(t.prices.link[TT_LINK_NODE].part[0].alpha_us == 0.1234567890123);
  free(text);
  tt_topology_destroy(&t);
}

static void what_a_person_writes_means_the_same(void **state)
{
  (void)state;
  static const char wanted[] = HEAD "node a ranks 0-6\nnode b ranks 7-11\nnuma a/0 ranks 0-3\ncache a/0/1 ranks 2,3\n"
                                    "link node alpha_us 0.5\n";
  means("# two nodes\n\n \t" HEAD "node b.example-1 ranks 7-11 # of 5\nnode \xc3\xa4 ranks 5,6, 0 ,1-4\n"
        "numa \xc3\xa4/x ranks 0-3\ncache \xc3\xa4/x/x ranks 2-3\nlink node alpha_us .5",
        wanted);
  means("tutti topology 1\r\nnode a ranks 0-6\r\nnode b ranks 7-11\r\nnuma a/0 ranks 0-3\r\n"
        "cache a/0/1 ranks 2-3\r\nlink node beta_us_per_mib 130 alpha_us 5e-1\r\n\r\n",
        wanted);
  means(HEAD "node a ranks 0-2\nnode b ranks 7-11\nnode a ranks 3-6\nnuma a/0 ranks 0,1\nnuma a/0 ranks 2-3\n"
             "cache a/0/1 ranks 2\ncache a/0/1 ranks 3\n\tlink\tnode\talpha_us\t0.50\t#x",
        wanted);
}

static void a_line_for_regular_machines_means_many(void **state)
{
  (void)state;
  means(HEAD "nodes 2 ranks 3 each\n", HEAD "node a ranks 0-2\nnode b ranks 3-5\n");
  means(HEAD "nodes 2 ranks 3 each cyclic\n", HEAD "node a ranks 0,2,4\nnode b ranks 1,3,5\n");
  means(HEAD "nodes 2 ranks 7 each numa 2 each\n",
        HEAD "node a ranks 0-6\nnuma a/0 ranks 0-3\nnuma a/1 ranks 4-6\n"
             "node b ranks 7-13\nnuma b/0 ranks 7-10\nnuma b/1 ranks 11-13\n");
  means(HEAD "nodes 1 ranks 7 each numa 2 each cache 2 each\n",
        HEAD "node a ranks 0-6\nnuma a/0 ranks 0-3\nnuma a/1 ranks 4-6\n"
             "cache a/0/0 ranks 0-1\ncache a/0/1 ranks 2-3\ncache a/1/0 ranks 4-5\ncache a/1/1 ranks 6\n");
  means(HEAD "nodes 2 ranks 4 each cache 2 each cyclic\n",
        HEAD "node a ranks 0,2,4,6\nnode b ranks 1,3,5,7\n"
             "cache a/-/0 ranks 0,2\ncache a/-/1 ranks 4,6\ncache b/-/0 ranks 1,3\ncache b/-/1 ranks 5,7\n");
  means(HEAD "nodes 2 ranks 2 each\nnode a ranks 4\nnodes 1 ranks 2 each\n",
        HEAD "node 1 ranks 0-1\nnode 2 ranks 2-3\nnode 3 ranks 4\nnode 4 ranks 5-6\n");
  struct tt_topology t = parsed(HEAD "nodes 128 ranks 8 each numa 2 each cache 2 each");
  assert_int_equal(t.nranks, 1024);
  assert_int_equal(t.nnodes, 128);
  assert_int_equal(t.nnumas, 256);
  assert_int_equal(t.ncaches, 512);
  tt_topology_destroy(&t);
}

static void anything_prints_and_reads_back(void **state)
{
  (void)state;
  uint64_t seed = 5;
  for (int round = 0; round < 300; round++) {
    uint64_t host[40];
    struct tt_locality where[40];
    int32_t n = 1 + round % 40;
    for (int32_t r = 0; r < 40; r++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      host[r] = seed >> 62;
      where[r] = (struct tt_locality){(int32_t)(seed >> 60 & 3) - 1, (int32_t)(seed >> 58 & 3) - 1};
    }
    struct tt_topology a, b;
    assert_int_equal(tt_topology_make(&a, n, host, where), tuttiSuccess);
    a.prices.gamma_us_per_mib = (double)(seed >> 28) / 7;
    char *text = printed(&a);
    assert_int_equal(parse_bytes(&b, text, strlen(text), n), tuttiSuccess);
    assert_memory_equal(a.node, b.node, (size_t)n * sizeof *a.node);
    assert_memory_equal(a.numa, b.numa, (size_t)n * sizeof *a.numa);
    assert_memory_equal(a.cache, b.cache, (size_t)n * sizeof *a.cache);
    assert_memory_equal(&a.prices, &b.prices, sizeof a.prices);
    free(text);
    tt_topology_destroy(&a);
    tt_topology_destroy(&b);
  }
}

/* ---- refusals ---- */

static const struct {
  const char *text, *said;
} wrong[] = {
    {"", "line 1: wanted 'tutti topology 1' first, not 'the end of the text'"},
    {"\n# nothing\n", "line 3: wanted 'tutti topology 1' first"},
    {"node a ranks 0\n", "line 1: wanted 'tutti topology 1' first, not 'node'"},
    {"tutti topology 2\nnode a ranks 0", "line 1: wanted version 1, not '2'"},
    {"tutti topology\n1", "line 1: wanted version 1, not 'the end of the line'"},
    {"tutti topology 1 node a", "line 1: wanted the end of the line, not 'node'"},
    {HEAD, "line 2: wanted a node with ranks, not 'the end of the text'"},
    {HEAD "gamma_us_per_mib 3", "wanted a node with ranks"},
    {HEAD "\n\nnod a ranks 0", "line 4: wanted node, nodes, numa, cache, link or gamma_us_per_mib, not 'nod'"},
    {HEAD ",", "line 2: wanted node, nodes"},
    {HEAD "node a/b ranks 0", "line 2: wanted a node's name, without '/', not 'a/b'"},
    {HEAD "node / ranks 0", "without '/', not '/'"},
    {HEAD "node", "wanted a node's name, without '/', not 'the end of the text'"},
    {HEAD "node\n", "wanted a node's name, without '/', not 'the end of the line'"},
    {HEAD "node ,a ranks 0", "not ','"},
    {HEAD "node a rank 0", "line 2: wanted 'ranks', not 'rank'"},
    {HEAD "node a ranks", "wanted a rank or FIRST-LAST, up to 1048575, not 'the end of the text'"},
    {HEAD "node a ranks 0-", "not '0-'"},
    {HEAD "node a ranks -1", "not '-1'"},
    {HEAD "node a ranks 0--1", "not '0--1'"},
    {HEAD "node a ranks 3-1", "wanted a rank or FIRST-LAST, up to 1048575, not '3-1'"},
    {HEAD "node a ranks 0-1-2", "not '0-1-2'"},
    {HEAD "node a ranks 0x1", "not '0x1'"},
    {HEAD "node a ranks +1", "not '+1'"},
    {HEAD "node a ranks 0,", "not 'the end of the text'"},
    {HEAD "node a ranks 0,,1", "not ','"},
    {HEAD "node a ranks 0 1", "wanted the end of the line, not '1'"},
    {HEAD "node a ranks 1048576", "up to 1048575, not '1048576'"},
    {HEAD "node a ranks 0-2147483647", "not '0-2147483647'"},
    {HEAD "node a ranks 99999999999999999999999999", "not '99999999999999999999999999'"},
    {HEAD "node a ranks 1-18446744073709551617", "not '1-18446744073709551617'"},
    {HEAD "node a ranks 0-3\nnode b ranks 3-5", "line 3: rank 3 is on a node already"},
    {HEAD "node a ranks 0,0", "line 2: rank 0 is on a node already"},
    {HEAD "node a ranks 1", "here.txt: rank 0 is on no node, but rank 1 is"},
    {HEAD "node a ranks 0-3\nnode b ranks 5-7", "here.txt: rank 4 is on no node, but rank 7 is"},
    {HEAD "numa a/0 ranks 0\nnode a ranks 0", "line 2: rank 0 is not on this node: say so above"},
    {HEAD "node a ranks 0-3\nnode b ranks 4-5\nnuma b/0 ranks 3", "line 4: rank 3 is not on this node"},
    {HEAD "node a ranks 0-3\nnuma a ranks 3", "line 3: wanted NODE/NUMA, not 'a'"},
    {HEAD "node a ranks 0-3\nnuma a/ ranks 3", "wanted NODE/NUMA, not 'a/'"},
    {HEAD "node a ranks 0-3\nnuma a/- ranks 3", "wanted NODE/NUMA, not 'a/-'"},
    {HEAD "node a ranks 0-3\nnuma /0 ranks 3", "wanted NODE/NUMA, not '/0'"},
    {HEAD "node a ranks 0-3\nnuma a/0/1 ranks 3", "wanted NODE/NUMA, not 'a/0/1'"},
    {HEAD "node a ranks 0-3\nnuma a/0 ranks 3\nnuma a/1 ranks 3", "line 4: rank 3 is in a NUMA node already"},
    {HEAD "node a ranks 0-3\ncache a/0 ranks 3", "wanted NODE/NUMA/CACHE, not 'a/0'"},
    {HEAD "node a ranks 0-3\ncache a/0/0 ranks 3", "line 3: rank 3 is not in this NUMA node: say so above"},
    {HEAD "node a ranks 0-3\nnuma a/0 ranks 0-1\nnuma a/1 ranks 2-3\ncache a/0/0 ranks 1-2",
     "line 5: rank 2 is not in this NUMA node"},
    {HEAD "node a ranks 0-3\nnuma a/0 ranks 0\ncache a/-/0 ranks 0-1", "line 4: rank 0 is not in this NUMA node"},
    {HEAD "node a ranks 0-3\ncache a/-/0 ranks 0\nnuma a/0 ranks 0", "line 4: rank 0 has a cache already"},
    {HEAD "node a ranks 0-3\ncache a/-/0 ranks 0\ncache a/-/0 ranks 0", "line 4: rank 0 has a cache already"},
    {HEAD "nodes 0 ranks 1 each", "wanted a number of nodes from 1 to 1048576, not '0'"},
    {HEAD "nodes -1 ranks 1 each", "wanted a number of nodes from 1 to 1048576, not '-1'"},
    {HEAD "nodes 2 ranks 0 each", "wanted a number of ranks from 1 to 1048576, not '0'"},
    {HEAD "nodes 2\n", "wanted 'ranks N each', not 'the end of the line'"},
    {HEAD "nodes 2 ranks 3", "wanted 'each', not 'the end of the text'"},
    {HEAD "nodes 2 ranks 3 each numa 4 each", "wanted at least as many ranks on a node as caches and NUMA nodes"},
    {HEAD "nodes 2 ranks 3 each numa 2 each cache 2 each", "wanted at least as many ranks"},
    {HEAD "nodes 2 ranks 3 each cache 2 each numa 2 each", "wanted the end of the line, not 'numa'"},
    {HEAD "nodes 2 ranks 3 each numa 1048576 each cache 1048576 each", "wanted at least as many ranks"},
    {HEAD "nodes 1048576 ranks 2 each", "wanted at most 1048576 ranks in all"},
    {HEAD "nodes 1048576 ranks 1048576 each", "wanted at most 1048576 ranks in all"},
    {HEAD "node a ranks 1048575\nnodes 1 ranks 1 each", "line 3: wanted at most 1048576 ranks in all"},
    {HEAD "nodes 2 ranks 2 each\nnode a ranks 3", "line 3: rank 3 is on a node already"},
    {HEAD "link wire alpha_us 3", "line 2: wanted self, cache, numa, node or net, not 'wire'"},
    {HEAD "link net", "wanted alpha_us or beta_us_per_mib, not 'the end of the text'"},
    {HEAD "link net 3", "wanted alpha_us or beta_us_per_mib, not '3'"},
    {HEAD "link net alpha_us", "wanted a number of microseconds from 0 to 1e+12, not 'the end of the text'"},
    {HEAD "link net alpha_us -1", "not '-1'"},
    {HEAD "link net alpha_us -0", "not '-0'"},
    {HEAD "link net alpha_us nan", "not 'nan'"},
    {HEAD "link net alpha_us inf", "not 'inf'"},
    {HEAD "link net alpha_us 1e999", "not '1e999'"},
    {HEAD "link net alpha_us 1.1e12", "not '1.1e12'"},
    {HEAD "link net alpha_us 0x10", "not '0x10'"},
    {HEAD "link net alpha_us 1,5", "wanted alpha_us or beta_us_per_mib, not ','"},
    {HEAD "link net alpha_us 1us", "not '1us'"},
    {HEAD "link net alpha_us .", "not '.'"},
    {HEAD "link net alpha_us 1\nlink net alpha_us 1", "line 3: wanted each price once"},
    {HEAD "gamma_us_per_mib", "wanted a number of microseconds"},
    {HEAD "gamma_us_per_mib 1 2", "wanted the end of the line, not '2'"},
    {HEAD "gamma_us_per_mib 1\ngamma_us_per_mib 1", "line 3: wanted each price once"},
    {HEAD "node \x01 ranks 0", "line 2: wanted text without control characters, not '?'"},
    {HEAD "node a\x1b[31m ranks 0", "wanted text without control characters, not 'a?[31m'"},
};

static void a_wrong_text_is_refused_with_line_and_reason(void **state)
{
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    struct tt_topology t = {.nranks = 77};
    const char *text = wrong[w].text;
    /* fmemopen knows no empty text. */
    tuttiResult_t result = parse_bytes(&t, text[0] ? text : " ", text[0] ? strlen(text) : 1, 0);
    if (result != tuttiInvalidArgument || !strstr(tt_last_sentence(), wrong[w].said))
      fail_msg("wanted \"%s\"\ngot %d \"%s\"\nof\n%s", wrong[w].said, (int)result, tt_last_sentence(), text);
    if (strncmp(tt_last_sentence(), "here.txt", 8) != 0) fail_msg("no name: %s", tt_last_sentence());
    assert_int_equal(t.nranks, 77);
  }
}

static void zero_bytes_and_endless_words_are_refused(void **state)
{
  (void)state;
  static const char zero[] = HEAD "node a\0b ranks 0";
  struct tt_topology t;
  char text[4096];
  assert_int_equal(parse_bytes(&t, zero, sizeof zero - 1, 0), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "control characters"));
  memset(text, 'x', sizeof text);
  memcpy(text, HEAD "node ", sizeof HEAD + 4);
  assert_int_equal(parse_bytes(&t, text, sizeof text, 0), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "line 2: wanted a word of at most 126 characters"));
  memset(text, ' ', sizeof text); /* long lines are no matter */
  memcpy(text, HEAD "node a ranks 0", sizeof HEAD + 13);
  text[sizeof text - 2] = ',';
  text[sizeof text - 1] = '1';
  assert_int_equal(parse_bytes(&t, text, sizeof text, 2), tuttiSuccess);
  tt_topology_destroy(&t);
}

static void the_number_of_ranks_must_fit(void **state)
{
  (void)state;
  struct tt_topology t;
  assert_int_equal(parse_bytes(&t, canonical, strlen(canonical), 12), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "here.txt is about 11 ranks, but there are 12"));
  assert_int_equal(parse_bytes(&t, canonical, strlen(canonical), 11), tuttiSuccess);
  tt_topology_destroy(&t);
}

/* ---- files ---- */

static void a_file_is_read_and_a_wrong_one_named(void **state)
{
  (void)state;
  struct tt_topology t;
  char path[] = "/tmp/tutti_topo_XXXXXX", directory[] = "/tmp/tutti_topo_XXXXXX", missing[64];
  int fd = mkstemp(path);
  assert_true(fd >= 0 && mkdtemp(directory));
  assert_int_equal(write(fd, canonical, strlen(canonical)), strlen(canonical));
  assert_int_equal(tt_topology_load(&t, path, 11), tuttiSuccess);
  tt_topology_destroy(&t);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(tt_topology_load(&t, path, 11), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), path));
  assert_int_equal(tt_topology_load(&t, directory, 11), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), directory));
  assert_non_null(strstr(tt_last_sentence(), "Is a directory"));
  snprintf(missing, sizeof missing, "%s/none", directory);
  assert_int_equal(tt_topology_load(&t, missing, 11), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "No such file"));
  assert_int_equal(tt_topology_load(&t, "", 11), tuttiInvalidArgument);
  close(fd);
  unlink(path);
  rmdir(directory);
}

static void a_long_path_leaves_room_for_the_reason(void **state)
{
  (void)state;
  char name[3000];
  struct tt_topology t;
  memset(name, 'p', sizeof name);
  name[sizeof name - 1] = 0;
  FILE *in = fmemopen((void *)(uintptr_t) "tutti", 5, "r");
  assert_int_equal(tt_topology_parse(&t, in, name, 0), tuttiInvalidArgument);
  fclose(in);
  assert_non_null(strstr(tt_last_sentence(), "line 1: wanted 'tutti topology 1' first"));
}

static void a_full_disk_is_told(void **state)
{
  (void)state;
  struct tt_topology t = parsed(canonical);
  FILE *out = fopen("/dev/full", "w");
  if (!out) skip();
  setvbuf(out, NULL, _IONBF, 0);
  assert_int_equal(topology_print(&t, out), tuttiSystemError);
  fclose(out);
  tt_topology_destroy(&t);
}

static void every_failed_allocation_is_told(void **state)
{
  (void)state;
  struct tt_topology t = {.nranks = 77};
  long n = 0;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess;) {
    assert_int_equal(t.nranks, 77);
    tt_alloc_fail_at(++n);
    result = parse_bytes(&t, canonical, strlen(canonical), 0);
    tt_alloc_fail_at(0);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(n > 4);
  FILE *out = fopen("/dev/null", "w");
  for (long k = 1; k <= 2; k++) {
    tt_alloc_fail_at(k);
    assert_int_equal(topology_print(&t, out), tuttiSystemError);
  }
  tt_alloc_fail_at(0);
  fclose(out);
  tt_topology_destroy(&t);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_canonical_text_prints_as_it_was_read),
      cmocka_unit_test(what_a_person_writes_means_the_same),
      cmocka_unit_test(a_line_for_regular_machines_means_many),
      cmocka_unit_test(anything_prints_and_reads_back),
      cmocka_unit_test(a_wrong_text_is_refused_with_line_and_reason),
      cmocka_unit_test(zero_bytes_and_endless_words_are_refused),
      cmocka_unit_test(the_number_of_ranks_must_fit),
      cmocka_unit_test(a_file_is_read_and_a_wrong_one_named),
      cmocka_unit_test(a_long_path_leaves_room_for_the_reason),
      cmocka_unit_test(a_full_disk_is_told),
      cmocka_unit_test(every_failed_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
