/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs the targets: a loop of seeded mutations of good inputs, or libFuzzer's (scripts/test-long fuzz).
 *
 *   test_fuzz [--seed N] [--rounds N] [--seconds N] [TARGET...]   so many inputs of each, or for so long; all targets
 *   test_fuzz --list                      their names
 *   test_fuzz --seeds FOLDER TARGET       writes the good inputs as files
 *   test_fuzz --input FILE TARGET         one input, as libFuzzer leaves it */
#include "fuzz.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "campaign.h"
#include "chance.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#define ROUNDS (IS_SLOW ? 600 : 2000)
#define SEEDS 64
#define FINDS 5          /* of a target, then it is left alone */
#define INPUT_LIMIT_S 30 /* for an input that takes milliseconds */

_Noreturn void fuzz_fault(const char *file, int line, const char *what)
{
  fprintf(stderr, "%s:%d: not true: %s\n", file, line, what);
  abort();
}

char *fuzz_text(const uint8_t *bytes, size_t len)
{
  char *text = malloc(len + 1);
  FUZZ_CHECK(text);
  if (len) memcpy(text, bytes, len);
  text[len] = 0;
  return text;
}

FILE *fuzz_file(const uint8_t *bytes, size_t len)
{
  FILE *file = len ? fmemopen((void *)(uintptr_t)bytes, len, "r") : fopen("/dev/null", "r");
  FUZZ_CHECK(file);
  return file;
}

uint64_t fuzz_take(struct fuzz_bytes *input, size_t bytes)
{
  uint64_t number = 0;
  fuzz_fill(input, &number, bytes);
  return number;
}

void fuzz_fill(struct fuzz_bytes *input, void *to, size_t bytes)
{
  size_t n = bytes < input->left ? bytes : input->left;
  memset(to, 0, bytes);
  if (n) memcpy(to, input->at, n);
  input->at += n;
  input->left -= n;
}

static const struct fuzz_target *const tables[] = {fuzz_texts, fuzz_records, fuzz_starts, fuzz_cores, fuzz_runs,
                                                   fuzz_verbs, fuzz_packets, fuzz_rings, fuzz_told};
enum { TABLES = sizeof tables / sizeof *tables };

static const struct fuzz_target *target_find(const char *name)
{
  for (int t = 0; t < TABLES; t++)
    for (const struct fuzz_target *target = tables[t]; target->name; target++)
      if (strcmp(target->name, name) == 0) return target;
  fprintf(stderr, "there is no target \"%s\": --list\n", name);
  exit(2);
}

static size_t seed_get(const struct fuzz_target *target, int number, uint8_t bytes[FUZZ_BYTES])
{
  if (!target->texts) return target->make(number, bytes);
  for (int i = 0; i <= number; i++)
    if (!target->texts[i]) return 0;
  size_t len = strlen(target->texts[number]);
  FUZZ_CHECK(len <= FUZZ_BYTES);
  memcpy(bytes, target->texts[number], len);
  return len;
}

static void quiet(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_CACHE", "none", 1);
  setenv("TUTTI_SOCKET_IFNAME", "lo", 1); /* no other host is called (told.c) */
}

#ifdef FUZZ_LIBFUZZER

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
  static const struct fuzz_target *target;
  if (!target) {
    quiet();
    target = target_find(getenv("FUZZ_TARGET") ? getenv("FUZZ_TARGET") : "");
  }
  if (len <= FUZZ_BYTES) target->run(bytes, len);
  return 0;
}

#else

/* ---- mutations ---- */

struct input {
  uint8_t bytes[2 * FUZZ_BYTES];
  size_t len;
};

static void piece_move(struct input *input, size_t to, const uint8_t *from, size_t len)
{
  uint8_t copy[FUZZ_BYTES];
  if (len > FUZZ_BYTES || input->len + len > FUZZ_BYTES) return;
  memcpy(copy, from, len);
  memmove(input->bytes + to + len, input->bytes + to, input->len - to);
  memcpy(input->bytes + to, copy, len);
  input->len += len;
}

static void mutate(struct input *input, const struct input *other, uint64_t *chance)
{
  static const uint64_t evil[] = {0,      ~0ull, 1,    0x7fffffff, 0x80000000, 0xffffffff, 1ull << 63, (1ull << 63) - 1,
                                  0xffff, 0x100, 65537};
  static const char *const words[] = {"0",
                                      "-1",
                                      "18446744073709551616",
                                      "9223372036854775807",
                                      "4294967296",
                                      "1e308",
                                      "nan",
                                      "inf",
                                      "..",
                                      "%s%n",
                                      "\n",
                                      " ",
                                      "\"",
                                      ",",
                                      ";",
                                      ":",
                                      "/",
                                      "#",
                                      "-",
                                      "1.5K",
                                      "0x10",
                                      "\xff\xfe",
                                      "^",
                                      "->"};
  size_t at = below(chance, input->len + 1), room = input->len - at, len = below(chance, 24) + 1;
  if (len > room) len = room;
  switch (below(chance, 9)) {
  case 0:
    if (room) input->bytes[at] ^= (uint8_t)(1u << below(chance, 8));
    break;
  case 1:
    if (room) input->bytes[at] = (uint8_t)next(chance);
    break;
  case 2: memcpy(input->bytes + at, &evil[below(chance, 11)], room < 8 ? room : 1u << below(chance, 4)); break;
  case 3:
    memmove(input->bytes + at, input->bytes + at + len, room - len);
    input->len -= len;
    break;
  case 4: piece_move(input, below(chance, input->len + 1), input->bytes + at, len); break;
  case 5: input->len = at; break;
  case 6:
    if (other->len) {
      size_t from = below(chance, other->len), most = other->len - from;
      piece_move(input, at, other->bytes + from, 1 + below(chance, most < 200 ? most : 200));
    }
    break;
  case 7: {
    const char *word = words[below(chance, sizeof words / sizeof *words)];
    piece_move(input, at, (const uint8_t *)word, strlen(word));
    break;
  }
  default:
    for (size_t i = 0; i < len; i++) input->bytes[at + i] = (uint8_t)next(chance);
  }
}

/* The input of a seed: the first ones are the good ones, then mostly such with a few changes. */
static void input_draw(struct input *input, const struct fuzz_target *target, uint64_t seed)
{
  static struct input seeds[SEEDS];
  static const struct fuzz_target *of;
  static size_t nseeds;
  uint64_t chance = seed;
  if (of != target) {
    for (of = target, nseeds = 0; nseeds < SEEDS; nseeds++)
      if (!(seeds[nseeds].len = seed_get(target, (int)nseeds, seeds[nseeds].bytes))) break;
  }
  FUZZ_CHECK(nseeds);
  if (seed && seed <= nseeds) {
    *input = seeds[seed - 1];
    return;
  }
  *input = seeds[below(&chance, nseeds)];
  size_t changes = seed % 50 ? below(&chance, 8) : 0;
  for (size_t i = 0; i < changes; i++) mutate(input, &seeds[below(&chance, nseeds)], &chance);
}

/* ---- the loop ---- */

/* Seen by the process that runs the inputs and by the one that waits for it. */
struct progress {
  _Atomic long done;
};

static void inputs_run(const struct fuzz_target *target, struct campaign *campaign, struct progress *progress)
{
  static struct input input;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  quiet();
  while (campaign_next(campaign)) {
    atomic_store(&progress->done, campaign->done);
    input_draw(&input, target, campaign->seed);
    uint8_t *exact = malloc(input.len + 1); /* so that a sanitizer sees every byte read behind it */
    FUZZ_CHECK(exact);
    exact = realloc(exact, input.len ? input.len : 1);
    memcpy(exact, input.bytes, input.len);
    alarm(INPUT_LIMIT_S);
    target->run(exact, input.len);
    alarm(0);
    free(exact);
  }
  exit(0);
}

/* Another process goes on behind an input that ends one. */
static void target_run(const struct fuzz_target *target, struct campaign *campaign)
{
  struct progress *progress = ranks_shared(sizeof *progress);
  FUZZ_CHECK(progress);
  if (target->slowness) campaign->rounds = (campaign->rounds + target->slowness - 1) / target->slowness;
  while (campaign->failed < FINDS) {
    int status = 0;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) inputs_run(target, campaign, progress);
    while (waitpid(pid, &status, 0) < 0) {
    }
    campaign->done = atomic_load(&progress->done);
    if (!status) break;
    campaign->seed = campaign->first + (uint64_t)campaign->done - 1;
    campaign->is_failed = 0;
    campaign_fail(campaign, "%s (%d)", WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashes",
                  status);
  }
}

static int list(void)
{
  for (int t = 0; t < TABLES; t++)
    for (const struct fuzz_target *target = tables[t]; target->name; target++) puts(target->name);
  return 0;
}

static int seeds_write(const char *folder, const struct fuzz_target *target)
{
  static uint8_t bytes[FUZZ_BYTES];
  char path[1024];
  size_t len;
  for (int k = 0; (len = seed_get(target, k, bytes)) > 0; k++) {
    snprintf(path, sizeof path, "%s/seed-%d", folder, k);
    FILE *file = fopen(path, "w");
    if (!file || fwrite(bytes, 1, len, file) != len || fclose(file) != 0) return 1;
  }
  return 0;
}

static int input_run(const char *path, const struct fuzz_target *target)
{
  static uint8_t bytes[FUZZ_BYTES];
  FILE *file = fopen(path, "r");
  if (!file) return 2;
  size_t len = fread(bytes, 1, sizeof bytes, file);
  fclose(file);
  quiet();
  target->run(bytes, len);
  return 0;
}

static int all_run(const struct campaign *asked, const struct fuzz_target *target)
{
  int bad = 0;
  for (; target->name; target++) {
    struct campaign campaign = *asked;
    char name[64];
    snprintf(name, sizeof name, "fuzz %s", target->name);
    campaign.name = name;
    campaign.began_ms = meeting_now_ms();
    target_run(target, &campaign);
    bad += campaign_end(&campaign, "%s", "");
  }
  return bad;
}

int main(int argc, char **argv)
{
  struct campaign campaign;
  int bad = 0;
  argc = campaign_read(&campaign, "fuzz", ROUNDS, argc, argv);
  if (argc == 2 && strcmp(argv[1], "--list") == 0) return list();
  if (argc == 4 && strcmp(argv[1], "--seeds") == 0) return seeds_write(argv[2], target_find(argv[3]));
  if (argc == 4 && strcmp(argv[1], "--input") == 0) return input_run(argv[2], target_find(argv[3]));
  for (int i = 1; i < argc; i++) {
    const struct fuzz_target one[2] = {*target_find(argv[i]), {0}};
    bad += all_run(&campaign, one);
  }
  for (int t = 0; argc == 1 && t < TABLES; t++) bad += all_run(&campaign, tables[t]);
  return bad != 0;
}

#endif
