/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles as text: what it means, what is refused and in which words; and the one that is built in.
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
#include "profile/profile.h"

#define START "tutti profile 3\n"
#define MACHINE "machine host h cpu c cores 2 memory m kernel k\n"
#define MEASURED "measured date d command c version v load 0.5\n"
#define HEAD START MACHINE MEASURED
#define FLOW "kind cache transport shm interface \"\" flows 1 ways 2 "
#define REST "alpha_us 1 beta_us_per_mib 80 overhead_us 0 points 3 error_percent 0"
#define LINK "link " FLOW "from 0 to inf " REST "\n"
#define POINT "point " FLOW "bytes 8 us 2 low_us 1 high_us 3\n"
#define REDUCE "reduce type float op sum sources 2 level L2 bytes 512K gamma_us_per_mib 14 error_percent 2\n"
#define ANCHOR(ranks, nodes) \
  "anchor collective all_reduce algo ring radix 0 block 1K ranks " ranks " nodes " nodes \
  " cores 2 transport shm memory malloc bytes 64K us 44.1\n"

static tuttiResult_t parse_bytes(struct tt_profile *p, const char *text, size_t len)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, len, "r");
  assert_non_null(in);
  tuttiResult_t result = tt_profile_parse(p, in, "here.txt");
  fclose(in);
  return result;
}

/* Of what stands before `end`. */
static struct tt_profile parsed(const char *text)
{
  struct tt_profile p;
  char *whole = NULL;
  int len = asprintf(&whole, "%s%s", text, strstr(text, "\nend\n") ? "" : "\nend\n");
  assert_true(len > 0);
  if (parse_bytes(&p, whole, (size_t)len) != tuttiSuccess) fail_msg("%s\n%s", tt_last_sentence(), whole);
  free(whole);
  return p;
}

/* Without the lines that are empty or a comment. */
static char *bare(char *text)
{
  char *to = text;
  for (char *line = text; *line;) {
    size_t len = strcspn(line, "\n") + 1;
    if (*line != '#' && *line != '\n') {
      memmove(to, line, len);
      to += len;
    }
    line += len;
  }
  *to = 0;
  return text;
}

static char *printed(const struct tt_profile *p)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(tt_profile_print(p, out), tuttiSuccess);
  fclose(out);
  return text;
}

static void means(const char *text, const char *other)
{
  struct tt_profile a = parsed(text), b = parsed(other);
  char *one = printed(&a), *two = printed(&b);
  assert_string_equal(one, two);
  free(one);
  free(two);
  tt_profile_destroy(&a);
  tt_profile_destroy(&b);
}

static const char canonical[] =
    START "machine host a.example cpu \"Some CPU #3 @ 2 GHz\" cores 64 memory \"512 GiB\" kernel \"\"\n"
    "measured date 2026-11-20T18:40:00Z command \"tutti tune -n 4\" version 0.1.0 load 0.25\n"
    "measured date 2026-11-21T18:40:00Z command \"tutti tune -n 2 --append\" version 0.1.0 load 12\n"
    "missing ranks 4 nodes 1 transport shm from links\n"
    "missing ranks 4 nodes 1 transport tcp from \"algorithms of all_reduce in malloc memory\"\n"
    "link kind cache transport shm interface \"\" flows 1 ways 1 "
    "from 0 to inf alpha_us 0.2 beta_us_per_mib 81 overhead_us 0.08 "
    "points 9 error_percent 3.1\n"
    "link kind cache transport shm interface \"\" flows 1 ways 2 "
    "from 0 to 2K alpha_us 0.2 beta_us_per_mib 81 overhead_us 0.08 "
    "points 9 error_percent 3.1\n"
    "link kind cache transport shm interface \"\" flows 1 ways 2 "
    "from 2K to 3M alpha_us 0.5 beta_us_per_mib 70 overhead_us 0 "
    "points 0 error_percent 0.1234567890123\n"
    "link kind cache transport shm interface \"\" flows 1 ways 2 "
    "from 3M to inf alpha_us 1e-07 beta_us_per_mib 1e+12 overhead_us 0 "
    "points 1 error_percent 0\n"
    "link kind cache transport shm interface \"\" flows 16 ways 2 "
    "from 0 to inf alpha_us 0 beta_us_per_mib 0 overhead_us 0 points 0 "
    "error_percent 0\n"
    "link kind net transport tcp interface eth0 flows 1 ways 2 from 0 to inf alpha_us 9 beta_us_per_mib 81 "
    "overhead_us 1 points 2 error_percent 0\n"
    "link kind net transport tcp interface ib0.8 flows 1 ways 2 "
    "from 0 to inf alpha_us 9 beta_us_per_mib 81 overhead_us 1 points 2 "
    "error_percent 0\n"
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 0 us 0.52 low_us 0.5 high_us 0.6\n"
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 1000 us 0.52 low_us 0.5 high_us 0.6\n"
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 1G us 7 low_us 7 high_us 7\n"
    "point kind cache transport shm interface \"\" flows 1 ways 2 bytes 2048G us 7 low_us 7 high_us 7\n"
    "reduce type half op max sources 3 level memory bytes 1M gamma_us_per_mib 20 error_percent 0\n"
    "reduce type float op sum sources 2 level L1 bytes 1536 gamma_us_per_mib 14.2 error_percent 2\n"
    "anchor collective all_reduce algo hierarchical+ring radix 0 block 128K ranks 8 nodes 1 cores 2 transport shm "
    "memory malloc bytes 64K us 44.1\n"
    "anchor collective broadcast algo knomial radix 4 block 1000 ranks 8 nodes 8 cores 1 transport tcp "
    "memory tutti bytes 8 us 1\n"
    "end\n";

static void the_canonical_text_prints_as_it_was_read(void **state)
{
  (void)state;
  struct tt_profile p = parsed(canonical);
  char *text = printed(&p), *again;
  struct tt_profile q = parsed(text);
  again = printed(&q);
  assert_string_equal(text, again);
  assert_string_equal(bare(text), canonical);
  assert_string_equal(p.cpu, "Some CPU #3 @ 2 GHz");
  assert_string_equal(p.name, "here.txt");
  assert_int_equal(p.cores, 64);
  assert_int_equal(p.nmeasured, 2);
  assert_string_equal(p.measured[1].command, "tutti tune -n 2 --append");
  assert_true(p.measured[0].load == 0.25 && p.measured[1].load == 12);
  assert_int_equal(p.nlinks, 7);
  assert_int_equal(p.links[2].from, 2048);
  assert_int_equal(p.nmissing, 2);
  assert_string_equal(p.missing[1].from, "algorithms of all_reduce in malloc memory");
  assert_int_equal(p.links[2].line, 9);
  assert_true(p.links[3].to == UINT64_MAX);
  assert_true(p.links[2].error_percent == 0.1234567890123);
  assert_int_equal(p.links[5].flow.kind, TT_LINK_NET);
  assert_string_equal(p.links[5].flow.interface, "eth0");
  assert_string_equal(p.links[6].flow.interface, "ib0.8");
  assert_int_equal(p.npoints, 4);
  assert_int_equal(p.points[2].bytes, 1 << 30);
  assert_int_equal(p.nreduces, 2);
  assert_int_equal(p.reduces[0].type, tuttiFloat16);
  assert_int_equal(p.reduces[0].op, tuttiMax);
  assert_int_equal(p.reduces[0].level, TT_LEVEL_MEMORY);
  assert_int_equal(p.nanchors, 2);
  assert_string_equal(p.anchors[0].algo, "hierarchical+ring");
  assert_int_equal(p.anchors[0].block_bytes, 128 << 10);
  assert_int_equal(p.anchors[1].collective, TT_BROADCAST);
  assert_int_equal(p.anchors[0].memory, TT_MEMORY_MALLOC);
  assert_int_equal(p.anchors[1].memory, TT_MEMORY_TUTTI);
  free(text);
  free(again);
  tt_profile_destroy(&p);
  tt_profile_destroy(&q);
}

static void what_a_person_writes_means_the_same(void **state)
{
  (void)state;
  static const char parts[] = HEAD "link " FLOW "from 0 to 2K " REST "\nlink " FLOW "from 2K to inf " REST "\n" POINT;
  means("# mine\n\n \t" START MEASURED "\nmachine\tkernel k cores 2 memory m host h cpu c # two\r\n", HEAD);
  means(START MEASURED LINK "machine kernel \"k\" memory m host h cpu c cores 2#\n",
        HEAD "link " REST " ways 2 flows 1 to inf interface \"\" from 0 transport \"shm\" kind cache");
  means(START POINT "link " FLOW "from 2048 to inf " REST "\n" MACHINE "link " FLOW "from 0K to 2048 " REST "\n"
        MEASURED, parts);
  means(HEAD "link " FLOW "from 0 to inf alpha_us 1.0 beta_us_per_mib 8e1 overhead_us 0.0 points 03 error_percent .0",
        HEAD LINK);
}

static const struct {
  const char *text, *said;
} wrong[] = {
    {"", "line 1: wanted 'tutti profile 3' first, not 'the end of the text'"},
    {"\n# nothing\n", "line 3: wanted 'tutti profile 3' first, not 'the end of the text'"},
    {"tutti\n", "line 1: wanted 'tutti profile 3' first, not 'the end of the line'"},
    {"tutti topology 1\n", "line 1: wanted 'tutti profile 3' first, not 'topology'"},
    {"\"tutti\" profile 1\n", "line 1: wanted 'tutti profile 3' first, not 'tutti'"},
    {"tutti profile 2\n", "line 1: wanted version 3: measure anew with tutti tune, not '2'"},
    {"tutti profile 3 1\n", "line 1: wanted the end of the line, not '1'"},
    {START, "line 2: wanted a line 'machine', not 'the end of the text'"},
    {START MACHINE MACHINE, "line 3: wanted one such line only, not 'machine'"},
    {HEAD MEASURED, "line 4: it says what line 3 says already: keep one of them"},
    {HEAD "links",
     "line 4: wanted machine, measured, missing, link, point, reduce, anchor, learnt or end, not 'links'"},
    {HEAD "\"link\" " FLOW,
     "line 4: wanted machine, measured, missing, link, point, reduce, anchor, learnt or end, not 'link'"},
    {START "machine host h\n",
     "line 2: wanted the keys cpu, cores, memory, kernel, not 'the end of the line'"},
    {START "machine host", "line 2: wanted a value for 'host', not 'the end of the text'"},
    {START "machine host h h", "line 2: wanted one of the keys cpu, cores, memory, kernel, not 'h'"},
    {START "machine host h \"cpu\" c", "line 2: wanted one of the keys cpu, cores, memory, kernel, not 'cpu'"},
    {START "machine host h host h", "line 2: wanted each key once, not 'host'"},
    {START "measured date d command c version v load 0\n version", "line 3: wanted machine,"},
    {HEAD "point " FLOW "bytes 8 us 2 low_us 1 high_us 3 more", "line 4: wanted the end of the line, not 'more'"},
    {START "machine host \"h", "line 2: wanted a double quote at the end of a text, not 'h'"},
    {START "machine host \"h\nx\"", "line 2: wanted a double quote at the end of a text, not 'h'"},
    {START "machine host \"h\"x", "line 2: wanted a blank behind the quote that ends a text, not 'h'"},
    {START "machine host h\"x\"", "line 2: wanted a word without quotes, or a text that is all within them, not 'h'"},
    {START "machine host \"\th\"", "line 2: wanted text without control characters, not '?h'"},
    {START "machine host h\x01", "line 2: wanted text without control characters, not 'h?'"},
    {START "machine cores two", "line 2: wanted a whole number from 0 to 1000000000, not 'two'"},
    {START "machine cores 2x", "not '2x'"},
    {START "machine cores -2", "not '-2'"},
    {START "machine cores +2", "not '+2'"},
    {START "machine cores 2.0", "not '2.0'"},
    {START "machine cores \"\"", "not ''"},
    {START "machine cores 1000000001", "not '1000000001'"},
    {START "machine cores 4294967298", "not '4294967298'"},
    {START "machine cores 99999999999999999999999999", "not '99999999999999999999999999'"},
    {HEAD "link kind wire", "line 4: wanted one of self, cache, numa, node, net, not 'wire'"},
    {HEAD "link kind transport", "not 'transport'"},
    {HEAD "link transport \"\"", "line 4: wanted a name of at most 47 characters, not ''"},
    {HEAD "link transport a23456789012345678901234567890123456789012345678", "wanted a name of at most 47 characters"},
    {HEAD "link interface a23456789012345678901234567890123456789012345678", "of at most 47 characters, not 'a2"},
    {HEAD "link flows 0", "line 4: wanted a whole number from 1 to 1024, not '0'"},
    {HEAD "link flows 1025", "not '1025'"},
    {HEAD "link ways 3", "line 4: wanted a whole number from 1 to 2, not '3'"},
    {HEAD "link from inf", "line 4: wanted a whole number of bytes up to 2^60, as 100, 64K, 1.5M or 2GiB, not 'inf'"},
    {HEAD "link from 1T", "not '1T'"},
    {HEAD "link from 1KB", "not '1KB'"},
    {HEAD "link from K", "not 'K'"},
    {HEAD "link from 1.3K", "not '1.3K'"},
    {HEAD "link from -1", "not '-1'"},
    {HEAD "link from 0x10", "not '0x10'"},
    {HEAD "link from 1152921504606846977", "not '1152921504606846977'"},
    {HEAD "link from 1073741825G", "not '1073741825G'"},
    {HEAD "link from 18446744073709551616", "not '18446744073709551616'"},
    {HEAD "link to 99999999999999999999999999K", "100, 64K, 1.5M or 2GiB, or inf, not '99999999999999999999999999K'"},
    {HEAD "link to infinity", "or inf, not 'infinity'"},
    {HEAD "link alpha_us", "line 4: wanted a value for 'alpha_us', not 'the end of the text'"},
    {HEAD "link alpha_us -1", "line 4: wanted a number from 0 to 1e+12, not '-1'"},
    {HEAD "link alpha_us -0", "not '-0'"},
    {HEAD "link alpha_us nan", "not 'nan'"},
    {HEAD "link alpha_us inf", "not 'inf'"},
    {HEAD "link alpha_us 1e999", "not '1e999'"},
    {HEAD "link alpha_us 1.1e12", "not '1.1e12'"},
    {HEAD "link alpha_us 0x10", "not '0x10'"},
    {HEAD "link alpha_us 1,5", "not '1,5'"},
    {HEAD "link alpha_us 1us", "not '1us'"},
    {HEAD "link alpha_us .", "not '.'"},
    {HEAD "link alpha_us \"\"", "not ''"},
    {HEAD "link " FLOW "from 0 to inf alpha_us 1 beta_us_per_mib 80\n",
     "line 4: wanted the keys overhead_us, points, error_percent, not 'the end of the line'"},
    {HEAD "link " FLOW "from 8 to 8 " REST, "line 4: from must be less than to"},
    {HEAD "link " FLOW "from 1 to inf " REST, "here.txt, line 4: it must begin at 0: the lines of one kind"},
    {HEAD "link " FLOW "from 0 to 1G " REST "\nend\n", "line 4: it is the last and must end at inf"},
    {HEAD "link " FLOW "from 0 to 1G " REST, "line 4: wanted a line 'end': the text is cut off"},
    {HEAD LINK "link kind cache transport tcp interface \"\" flows 1 ways 2 "
    "from 0 to 4 " REST "\nend\n", "line 5: it is the last"},
    {HEAD "link " FLOW "from 0 to 8 " REST "\nlink " FLOW "from 9 to inf " REST, "line 5: there is a gap below from"},
    {HEAD "link " FLOW "from 7 to inf " REST "\nlink " FLOW "from 0 to 8 " REST, "line 4: it overlaps the line below"},
    {HEAD LINK "link " FLOW "from 7 to inf " REST, "line 5: it overlaps the line below"},
    {HEAD "link " FLOW "from 0 to 1 " REST "\nlink " FLOW "from 1 to 2 " REST "\nlink " FLOW "from 2 to 3 " REST
     "\nlink " FLOW "from 3 to 4 " REST "\nlink " FLOW "from 4 to inf " REST, "line 8: there are more than 4 lines"},
    {HEAD "link " FLOW "from 0 to 1M " REST "\nlink " FLOW
     "from 1M to inf alpha_us 80.9 beta_us_per_mib 0 overhead_us 0 points 0 error_percent 0",
     "line 5: at from it takes less time than by the line below it"},
    {HEAD LINK LINK, "line 5: it says what line 4 says already: keep one of them"},
    {HEAD POINT REDUCE POINT, "line 6: it says what line 4 says already"},
    {HEAD REDUCE REDUCE, "line 5: it says what line 4 says already"},
    {HEAD ANCHOR("8", "1") ANCHOR("7", "1") ANCHOR("8", "1"), "line 6: it says what line 4 says already"},
    {HEAD "point " FLOW "bytes 8 us 1 low_us 2 high_us 3", "line 4: low_us must not be above us, nor us above high_us"},
    {HEAD "point " FLOW "bytes 8 us 4 low_us 2 high_us 3", "line 4: low_us must not be above us, nor us above high_us"},
    {HEAD "point us 0", "line 4: wanted a number from 1e-06 to 1e+12, not '0'"},
    {HEAD "point bytes inf", "not 'inf'"},
    {HEAD "reduce type float32", "line 4: wanted one of int8, uint8, int32, uint32, int64, uint64, half, float, "
                                 "double, bfloat16, f8e4m3, f8e5m2, int16, uint16, bool, complex64, complex128, "
                                 "not 'float32'"},
    {HEAD "reduce op add", "line 4: wanted one of sum, prod, max, min, avg, and, or, xor, mulsum, not 'add'"},
    {HEAD "reduce sources 1", "line 4: wanted a whole number from 2 to 1024, not '1'"},
    {HEAD "reduce level l2", "line 4: wanted one of L1, L2, L3, memory, not 'l2'"},
    {HEAD "anchor collective allreduce", "line 4: wanted one of all_reduce, reduce, broadcast, reduce_scatter, "
                                         "all_gather, all_to_all, gather, scatter, not 'allreduce'"},
    {HEAD "anchor collective \"\"", "all_gather, all_to_all, gather, scatter, not ''"},
    {HEAD "anchor block 0", "line 4: wanted a whole number of bytes from 1 to 1G, not '0'"},
    {HEAD "anchor block 2G", "not '2G'"},
    {HEAD "anchor block inf", "not 'inf'"},
    {HEAD "anchor memory heap", "line 4: wanted one of malloc, tutti, not 'heap'"},
    {HEAD "anchor radix 65536", "line 4: wanted a whole number from 0 to 65535, not '65536'"},
    {HEAD "anchor ranks 1048577", "line 4: wanted a whole number from 1 to 1048576, not '1048577'"},
    {HEAD LINK, "line 5: wanted a line 'end': the text is cut off; measure anew, or write that line if nothing"},
    {HEAD "en",
     "line 4: wanted machine, measured, missing, link, point, reduce, anchor, learnt or end, not 'en'"},
    {HEAD "end 3\n", "line 4: wanted the end of the line, not '3'"},
    {HEAD "end\n\nend", "line 6: wanted nothing behind 'end', not 'end'"},
    {HEAD "end\n" LINK, "line 5: wanted nothing behind 'end', not 'link'"},
    {HEAD ANCHOR("2", "3"), "line 4: there must not be more nodes than ranks"},
};

/* Every text that is cut off somewhere: also where a number only lost its last digits. */
static void a_text_that_was_cut_off_is_refused(void **state)
{
  (void)state;
  struct tt_profile p;
  for (size_t len = 1; len < strlen(canonical) - 1; len++)
    if (parse_bytes(&p, canonical, len) != tuttiInvalidArgument) fail_msg("%zu bytes pass", len);
}

static void a_wrong_text_is_refused_with_line_and_reason(void **state)
{
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    struct tt_profile p = {.nlinks = 77};
    const char *text = wrong[w].text;
    /* fmemopen knows no empty text. */
    tuttiResult_t result = parse_bytes(&p, text[0] ? text : " ", text[0] ? strlen(text) : 1);
    if (result != tuttiInvalidArgument || !strstr(tt_last_sentence(), wrong[w].said))
      fail_msg("wanted \"%s\"\ngot %d \"%s\"\nof\n%s", wrong[w].said, (int)result, tt_last_sentence(), text);
    if (strncmp(tt_last_sentence(), "here.txt", 8) != 0) fail_msg("no name: %s", tt_last_sentence());
    assert_int_equal(p.nlinks, 77);
  }
}

/* A text of n letters as the host, with quotes around. */
static tuttiResult_t host_parse(struct tt_profile *p, int n)
{
  char text[420], host[301];
  memset(host, 'x', sizeof host - 1);
  snprintf(text, sizeof text, START MEASURED "machine host \"%.*s\" cpu c cores 2 memory m kernel k\nend", n, host);
  return parse_bytes(p, text, strlen(text));
}

static void texts_are_bounded(void **state)
{
  (void)state;
  struct tt_profile p;
  assert_int_equal(host_parse(&p, 95), tuttiSuccess);
  assert_int_equal(strlen(p.host), 95);
  tt_profile_destroy(&p);
  assert_int_equal(host_parse(&p, 96), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "line 3: wanted a text of at most 95 characters, not 'xxx"));
  assert_int_equal(host_parse(&p, 300), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "line 3: wanted a word of at most 126 characters, not 'xxx"));
  static const char zero[] = HEAD "link\0kind";
  assert_int_equal(parse_bytes(&p, zero, sizeof zero - 1), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "control characters"));
}

static void what_a_text_cannot_hold_is_replaced(void **state)
{
  (void)state;
  struct tt_profile p = {.cpu = "a \"b\"\n#c", .memory = "\xc3\xa4\t", .host = "#", .kernel = "\"", .cores = 3};
  char *text = printed(&p);
  struct tt_profile q = parsed(text);
  assert_string_equal(q.cpu, "a 'b'?#c");
  assert_string_equal(q.memory, "\xc3\xa4?");
  assert_string_equal(q.host, "#");
  assert_string_equal(q.kernel, "'");
  assert_int_equal(q.cores, 3);
  free(text);
  tt_profile_destroy(&q);
}

static uint64_t random_next(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

static double random_number(uint64_t *seed)
{
  return 0.001 + (double)random_next(seed) / 1e5;
}

static void lines_that_were_added_print_and_read_back(void **state)
{
  (void)state;
  uint64_t seed = 5;
  struct tt_profile p = {.cores = 1};
  for (int i = 0; i < 600; i++) {
    enum tt_link_kind kind = (enum tt_link_kind)(i % TT_LINK_KINDS);
    struct tt_flow flow = {kind, "shm", 1 + (int)(random_next(&seed) % 3), 1 + i % 2, ""};
    snprintf(flow.transport, sizeof flow.transport, "t%d", i);
    struct tt_profile_link link = {.flow = flow, .to = UINT64_MAX, .alpha_us = random_number(&seed),
                                   .beta_us_per_mib = random_number(&seed) * 1e-5, .line = 7};
    struct tt_profile_point point = {.flow = flow, .bytes = random_next(&seed), .us = 2, .low_us = 2, .high_us = 2};
    struct tt_profile_reduce reduce = {.type = i % tuttiNumTypes, .op = i % TT_REDOPS, .nsrc = 2 + i,
                                       .gamma_us_per_mib = random_number(&seed)};
    struct tt_profile_anchor anchor = {.collective = TT_SCATTER, .algo = "a", .block_bytes = 1 + (uint32_t)i,
                                       .nranks = 3, .nnodes = 3, .cores = 1, .transport = "t", .us = 1};
    assert_int_equal(tt_profile_add_link(&p, &link), tuttiSuccess);
    assert_int_equal(tt_profile_add_point(&p, &point), tuttiSuccess);
    assert_int_equal(tt_profile_add_reduce(&p, &reduce), tuttiSuccess);
    assert_int_equal(tt_profile_add_anchor(&p, &anchor), tuttiSuccess);
  }
  char *text = printed(&p), *again;
  struct tt_profile q = parsed(text);
  assert_int_equal(q.nlinks, 600);
  assert_int_equal(q.npoints, 600);
  assert_int_equal(q.nreduces, 600);
  assert_int_equal(q.nanchors, 600);
  again = printed(&q);
  assert_string_equal(text, again);
  for (int i = 1; i < q.nlinks; i++) assert_true(q.links[i].flow.kind >= q.links[i - 1].flow.kind);
  free(text);
  free(again);
  tt_profile_destroy(&p);
  tt_profile_destroy(&q);
}

static void lines_may_be_taken_out_before_more_are_added(void **state)
{
  (void)state;
  struct tt_profile p = {0};
  struct tt_profile_point point = {.flow = {TT_LINK_NET, "tcp", 1, 1, ""}, .us = 1, .low_us = 1, .high_us = 1};
  for (int round = 0; round < 40; round++) {
    for (int i = 0; i < 2 * round + 3; i++, point.bytes++)
      assert_int_equal(tt_profile_add_point(&p, &point), tuttiSuccess);
    p.npoints -= round;
    for (int32_t i = 1; i < p.npoints; i++) assert_true(p.points[i].bytes > p.points[i - 1].bytes);
  }
  tt_profile_destroy(&p);
}

static void too_many_lines_are_refused(void **state)
{
  (void)state;
  struct tt_profile p = {0};
  struct tt_profile_point point = {.us = 1};
  for (int i = 0; i < TT_PROFILE_LINES; i++) assert_int_equal(tt_profile_add_point(&p, &point), tuttiSuccess);
  assert_int_equal(tt_profile_add_point(&p, &point), tuttiSystemError);
  assert_int_equal(p.npoints, TT_PROFILE_LINES);
  tt_profile_destroy(&p);
}

static void flows_are_the_same_in_all_five(void **state)
{
  (void)state;
  struct tt_flow flow = {TT_LINK_NUMA, "shm", 2, 1, ""}, other = flow;
  assert_true(tt_flow_same(&flow, &other));
  other.kind = TT_LINK_NODE;
  assert_false(tt_flow_same(&flow, &other));
  other = flow;
  other.transport[2] = 0;
  assert_false(tt_flow_same(&flow, &other));
  other = flow;
  other.flows = 3;
  assert_false(tt_flow_same(&flow, &other));
  other = flow;
  other.ways = 2;
  assert_false(tt_flow_same(&flow, &other));
  other = flow;
  other.interface[0] = 'a';
  assert_false(tt_flow_same(&flow, &other));
}

static void the_shipped_one_knows_every_link_and_prints_to_itself(void **state)
{
  (void)state;
  static const char *const transports[] = {"shm", "tcp"};
  const struct tt_profile *p = tt_profile_shipped();
  assert_non_null(p);
  assert_ptr_equal(p, tt_profile_shipped());
  assert_string_equal(p->name, "built in");
  for (int k = TT_LINK_CACHE; k <= TT_LINK_NET; k++)
    for (int t = k == TT_LINK_NET; t < 2; t++)
      for (int flows = 1; flows <= 8; flows *= 2)
        for (int ways = 1; ways <= 2; ways++) {
          struct tt_flow flow = {(enum tt_link_kind)k, "", flows, ways, ""};
          int found = 0;
          snprintf(flow.transport, sizeof flow.transport, "%s", transports[t]);
          for (int32_t i = 0; i < p->nlinks; i++) found += tt_flow_same(&p->links[i].flow, &flow);
          if (!found) fail_msg("no link %s over %s, %d flows, %d ways", tt_link_names[k], transports[t], flows, ways);
        }
  assert_true(p->nreduces > 0);
  FILE *in = fopen(TT_SHIPPED_PROFILE, "r");
  static char text[1 << 20];
  assert_non_null(in);
  text[fread(text, 1, sizeof text - 1, in)] = 0;
  fclose(in);
  char *mine = printed(p);
  assert_string_equal(bare(text), bare(mine));
  free(mine);
}

/* ---- files ---- */

static void a_file_is_read_and_a_wrong_one_named(void **state)
{
  (void)state;
  struct tt_profile p;
  char path[] = "/tmp/tutti_profile_XXXXXX", directory[] = "/tmp/tutti_profile_XXXXXX", missing[64];
  int fd = mkstemp(path);
  assert_true(fd >= 0 && mkdtemp(directory));
  assert_int_equal(write(fd, canonical, strlen(canonical)), strlen(canonical));
  assert_int_equal(tt_profile_load(&p, path), tuttiSuccess);
  assert_string_equal(p.name, path);
  tt_profile_destroy(&p);
  assert_int_equal(ftruncate(fd, 0), 0);
  assert_int_equal(tt_profile_load(&p, path), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), path));
  assert_int_equal(tt_profile_load(&p, directory), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), directory));
  assert_non_null(strstr(tt_last_sentence(), "Is a directory"));
  snprintf(missing, sizeof missing, "%s/none", directory);
  assert_int_equal(tt_profile_load(&p, missing), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "No such file"));
  close(fd);
  unlink(path);
  rmdir(directory);
}

static void a_long_path_leaves_room_for_the_reason(void **state)
{
  (void)state;
  char name[3000];
  struct tt_profile p;
  memset(name, 'p', sizeof name);
  name[sizeof name - 1] = 0;
  FILE *in = fmemopen((void *)(uintptr_t) "tutti", 5, "r");
  assert_int_equal(tt_profile_parse(&p, in, name), tuttiInvalidArgument);
  fclose(in);
  assert_non_null(strstr(tt_last_sentence(), "line 1: wanted 'tutti profile 3' first"));
}

static void a_full_disk_is_told(void **state)
{
  (void)state;
  struct tt_profile p = parsed(canonical);
  FILE *out = fopen("/dev/full", "w");
  if (!out) skip();
  setvbuf(out, NULL, _IONBF, 0);
  assert_int_equal(tt_profile_print(&p, out), tuttiSystemError);
  fclose(out);
  tt_profile_destroy(&p);
}

static void every_failed_allocation_is_told(void **state)
{
  (void)state;
  struct tt_profile p = {.nlinks = 77};
  long n = 0;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess;) {
    assert_int_equal(p.nlinks, 77);
    tt_alloc_fail_at(++n);
    result = parse_bytes(&p, canonical, strlen(canonical));
    tt_alloc_fail_at(0);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_int_equal(n, 7);
  FILE *out = fopen("/dev/null", "w");
  for (long k = 1; k <= 5; k++) {
    tt_alloc_fail_at(k);
    assert_int_equal(tt_profile_print(&p, out), tuttiSystemError);
  }
  tt_alloc_fail_at(0);
  fclose(out);
  tt_profile_destroy(&p);
  const void *known = atomic_exchange(&tt_process.profile, NULL);
  tt_alloc_fail_at(1);
  assert_null(tt_profile_shipped());
  tt_alloc_fail_at(3);
  assert_null(tt_profile_shipped());
  tt_alloc_fail_at(0);
  atomic_store(&tt_process.profile, known);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_canonical_text_prints_as_it_was_read),
      cmocka_unit_test(what_a_person_writes_means_the_same),
      cmocka_unit_test(a_wrong_text_is_refused_with_line_and_reason),
      cmocka_unit_test(a_text_that_was_cut_off_is_refused),
      cmocka_unit_test(texts_are_bounded),
      cmocka_unit_test(what_a_text_cannot_hold_is_replaced),
      cmocka_unit_test(lines_that_were_added_print_and_read_back),
      cmocka_unit_test(lines_may_be_taken_out_before_more_are_added),
      cmocka_unit_test(too_many_lines_are_refused),
      cmocka_unit_test(flows_are_the_same_in_all_five),
      cmocka_unit_test(the_shipped_one_knows_every_link_and_prints_to_itself),
      cmocka_unit_test(a_file_is_read_and_a_wrong_one_named),
      cmocka_unit_test(a_long_path_leaves_room_for_the_reason),
      cmocka_unit_test(a_full_disk_is_told),
      cmocka_unit_test(every_failed_allocation_is_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
