/* SPDX-License-Identifier: BSD-3-Clause */
/* Texts that a user, a file, a launcher or a kernel gives. A text that is read and printed reads as the same again. */
#include <dlfcn.h>
#include <ftw.h>
#include <netdb.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "base/scan.h"
#include "base/settings.h"
#include "bootstrap/launch_private.h"
#include "codec/codec.h"
#include "fuzz.h"
#include "plan/layers_private.h"
#include "planner/plan.h"
#include "profile/profile.h"
#include "profiles/profiles.h"
#include "schedule/text_private.h"
#include "topo/machine_private.h"
#include "topology_text.h"
#include "transport/fault_private.h"
#include "tuner/algo_filter.h"
#include "tuner/cache.h"
#include "tuner/rules.h"

/* A printed text. */
struct printed {
  char *text;
  size_t len;
  FILE *out;
};

static FILE *print_begin(struct printed *printed)
{
  *printed = (struct printed){0};
  printed->out = open_memstream(&printed->text, &printed->len);
  FUZZ_CHECK(printed->out);
  return printed->out;
}

static void print_end(struct printed *printed)
{
  FUZZ_CHECK(fclose(printed->out) == 0);
}

/* Both are freed. */
static void same(struct printed *a, struct printed *b)
{
  FUZZ_CHECK(a->len == b->len && memcmp(a->text, b->text, a->len) == 0);
  free(a->text);
  free(b->text);
}

/* ---- settings ---- */

static const char *const names[] = {
#define TT_INT(field, name, value, low, high, unit, help) name,
#define TT_CHOICE(field, name, value, choices, help) name,
#define TT_TEXT(field, name, value, help) name,
#include "base/settings.def"
#undef TT_INT
#undef TT_CHOICE
#undef TT_TEXT
};

/* The first byte chooses the variable. */
static void settings_run(const uint8_t *bytes, size_t len)
{
  struct tt_settings settings;
  if (!len) return;
  const char *name = names[bytes[0] % (sizeof names / sizeof *names)];
  char *text = fuzz_text(bytes + 1, len - 1);
  setenv(name, text, 1);
  if (tt_settings_load(&settings) == tuttiSuccess) {
    struct printed printed;
    struct tt_listing listing = {.out = print_begin(&printed), .json = 1};
    tt_settings_list(&listing, &settings);
    tt_listing_end(&listing);
    print_end(&printed);
    free(printed.text);
    (void)tt_settings_wire_hash(&settings);
  }
  unsetenv(name);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_CACHE", "none", 1);
  free(text);
}

static const char *const settings_texts[] = {"\x01"
                                             "1000",
                                             "\x02"
                                             "on",
                                             "\x03"
                                             "eth0,^lo",
                                             "\x04"
                                             "64K",
                                             "\x05"
                                             "-1",
                                             "\x06"
                                             "shm,tcp",
                                             "\x07"
                                             "auto",
                                             "\x08"
                                             "WARN",
                                             "\x20"
                                             "1.5M",
                                             "\x21"
                                             "none",
                                             NULL};

static void numbers_run(const uint8_t *bytes, size_t len)
{
  char *text = fuzz_text(bytes, len);
  const char *at = text, *end = NULL;
  uint64_t number = 7;
  double real;
  int is_read = tt_bytes_read(&at, &number);
  FUZZ_CHECK(is_read ? at > text && number <= INT64_MAX : at == text && number == 7);
  if (tt_number_read(text, &end, &real)) FUZZ_CHECK(end > text && end <= text + strlen(text));
  at = text;
  (void)tt_digits(&at, 1ull << 60);
  FUZZ_CHECK(at <= text + strlen(text));
  free(text);
}

static const char *const numbers_texts[] = {"4096",  "64KiB", "1.5e6", "0.125G", "9223372036854775807",
                                            "1e18B", "3,4",   NULL};

/* ---- files ---- */

static void profile_run(const uint8_t *bytes, size_t len)
{
  struct tt_profile profile, again;
  struct printed once, twice;
  FILE *in = fuzz_file(bytes, len);
  tuttiResult_t result = tt_profile_parse(&profile, in, "fuzz");
  fclose(in);
  if (result != tuttiSuccess) return;
  FUZZ_CHECK(tt_profile_print(&profile, print_begin(&once)) == tuttiSuccess);
  print_end(&once);
  in = fuzz_file((const uint8_t *)once.text, once.len);
  FUZZ_CHECK(tt_profile_parse(&again, in, "again") == tuttiSuccess);
  fclose(in);
  FUZZ_CHECK(tt_profile_print(&again, print_begin(&twice)) == tuttiSuccess);
  print_end(&twice);
  same(&once, &twice);
  tt_profile_destroy(&profile);
  tt_profile_destroy(&again);
}

#define PROFILE_HEAD "tutti profile 3\nmachine host \"a\" cpu \"A 1\" cores 2 memory \"\" kernel \"6\"\n"

static const char *const profile_texts[] = {
    PROFILE_HEAD "link kind cache transport shm interface \"\" flows 1 ways 1 from 0 to inf alpha_us 0.3356 "
                 "beta_us_per_mib 54.93 overhead_us 0.1013 points 0 error_percent 0\n",
    PROFILE_HEAD
    "link kind net transport tcp interface \"eth0\" flows 8 ways 2 from 0 to 4096 alpha_us 2 beta_us_per_mib 1 "
    "overhead_us 1 points 3 error_percent 2.5\n"
    "link kind net transport tcp interface \"eth0\" flows 8 ways 2 from 4096 to inf alpha_us 2 beta_us_per_mib 1 "
    "overhead_us 1 points 3 error_percent 2.5 # comment\n",
    "# nothing else\ntutti profile 3\n", NULL};

static void topology_run(const uint8_t *bytes, size_t len)
{
  struct tt_topology topology, again;
  struct printed once, twice;
  FILE *in = fuzz_file(bytes, len);
  tuttiResult_t result = tt_topology_parse(&topology, in, "fuzz", 0);
  fclose(in);
  if (result != tuttiSuccess) return;
  FUZZ_CHECK(topology.nranks >= 1 && topology.nranks <= TT_TOPOLOGY_MAX_RANKS);
  for (int32_t r = 0; r < topology.nranks; r++)
    FUZZ_CHECK(topology.node[r] >= 0 && topology.node[r] < topology.nnodes && topology.numa[r] < topology.nnumas &&
               topology.cache[r] < topology.ncaches);
  if (topology.nranks <= 256) {
    FUZZ_CHECK(topology_print(&topology, print_begin(&once)) == tuttiSuccess);
    print_end(&once);
    in = fuzz_file((const uint8_t *)once.text, once.len);
    FUZZ_CHECK(tt_topology_parse(&again, in, "again", topology.nranks) == tuttiSuccess);
    fclose(in);
    FUZZ_CHECK(topology_print(&again, print_begin(&twice)) == tuttiSuccess);
    print_end(&twice);
    same(&once, &twice);
    tt_topology_destroy(&again);
  }
  tt_topology_destroy(&topology);
}

static const char *const topology_texts[] = {
    "tutti topology 1\nnodes 4 ranks 8 each numa 2 each cache 2 each cyclic\n",
    "tutti topology 1\nnode a ranks 0-6\nnode b ranks 7,9-12,8\nnuma a/0 ranks 0-3\ncache a/0/x ranks 2-3\n"
    "link net alpha_us 12 beta_us_per_mib 839\ngamma_us_per_mib 60\n",
    "tutti topology 1 # c\nnodes 3 ranks 2 each\nnode z ranks 6\n", NULL};

static void rules_run(const uint8_t *bytes, size_t len)
{
  struct tt_rules rules;
  FILE *in = fuzz_file(bytes, len);
  if (tt_rules_parse(&rules, in, "fuzz") == tuttiSuccess) tt_rules_destroy(&rules);
  fclose(in);
}

static const char *const rules_texts[] = {
    "all_reduce ranks 2..8 nodes 1 bytes 0..16KiB -> recursive_doubling # short\n"
    "\tAllReduce bytes 1M ppn 4..inf\tnodes 3..5 -> hierarchical+Ring block 64K radix 4\r\nreduce -> knomial/8 block "
    "1K\n",
    "broadcast -> knomial radix 65535\nall-reduce ranks 7 ppn 9 -> recursive-doubling\n", NULL};

static void layers_run(const uint8_t *bytes, size_t len)
{
  struct tt_layers layers;
  FILE *in = fuzz_file(bytes, len);
  if (tt_layers_parse(&layers, in, "fuzz") == tuttiSuccess) {
    FUZZ_CHECK(tt_model_check(&layers.net) == tuttiSuccess);
    tt_layers_destroy(&layers);
  }
  fclose(in);
}

static const char *const layers_texts[] = {
    "layer_index,name,params,fwd_flops,bwd_time_us,fwd_time_us\n1,conv1,34944,26986291200,8985.786,7781.071\n"
    "2,\"conv,2\",307456,57330892800,22045.862,9846.057\n",
    "params,bwd_time_us,layer_index,fwd_time_us\n1,0,1,0\n", NULL};

static void schedule_run(const uint8_t *bytes, size_t len)
{
  struct tt_schedule schedule = {0}, again = {0};
  struct printed once, twice;
  FILE *in = fuzz_file(bytes, len);
  if (tt_schedule_parse(&schedule, in) == tuttiSuccess) {
    FUZZ_CHECK(tt_schedule_print(&schedule, print_begin(&once)) == tuttiSuccess);
    print_end(&once);
    FILE *printed = fuzz_file((const uint8_t *)once.text, once.len);
    FUZZ_CHECK(tt_schedule_parse(&again, printed) == tuttiSuccess);
    fclose(printed);
    FUZZ_CHECK(tt_schedule_print(&again, print_begin(&twice)) == tuttiSuccess);
    print_end(&twice);
    same(&once, &twice);
  }
  fclose(in);
  tt_schedule_destroy(&schedule);
  tt_schedule_destroy(&again);
}

static const char *const schedule_texts[] = {
    "schedule all_gather ranks 4 rank 1 blocks 1 scratch 0 steps 3\n  0  send    [1,2)  in:1 -> rank 2\n"
    "  1  recv    [0,1)  msg:0 -> out:0\n  2  copy    [1,2)  in:1 -> out:1\n",
    "schedule all_reduce ranks 2 rank 1 blocks 2 scratch 1 steps 3\n  0  send    [0,1)  in:0 -> rank 0\n"
    "  1  reduce  [1,2)  msg:0 + in:1 -> out:1\n  2  pass    [1,2)  msg:0 -> rank 0\n",
    NULL};

/* ---- values of settings ---- */

static void algo_run(const uint8_t *bytes, size_t len)
{
  static struct tt_filters filters;
  char *text = fuzz_text(bytes, len);
  (void)tt_filters_parse(&filters, text);
  free(text);
}

static const char *const algo_texts[] = {"ring", "AllReduce:^ring,knomial/3;hierarchical+ring/2",
                                         "tree,nvls,collnetdirect;reduce:chain", "RING,OneShot,binary_Blocks", NULL};

static void codec_run(const uint8_t *bytes, size_t len)
{
  struct tt_codec codec, again;
  char *text = fuzz_text(bytes, len), once[TT_CODEC_TEXT_BYTES], twice[TT_CODEC_TEXT_BYTES];
  if (tt_codec_parse(&codec, text) == tuttiSuccess) {
    tt_codec_text(&codec, once);
    FUZZ_CHECK(tt_codec_parse(&again, once) == tuttiSuccess);
    FUZZ_CHECK(strcmp(once, tt_codec_text(&again, twice)) == 0);
    FUZZ_CHECK(memcmp(codec.number, again.number, sizeof codec.number) == 0);
  }
  free(text);
}

static const char *const codec_texts[] = {"fp16",         "int8:64",        "1bit:128",        "qsgd:4,64",
                                          "terngrad:2.5", "threshold:0.01", "drop:0.9",        "dryden:0.1",
                                          "adacomp:50",   "dgc:0.9",        "dgc:0.999,0.9,4", NULL};

static void policy_run(const uint8_t *bytes, size_t len)
{
  struct tt_policy policy;
  char *text = fuzz_text(bytes, len);
  (void)tt_policy_parse(&policy, text);
  free(text);
}

static const char *const policy_texts[] = {"wfbp", "threshold:25M,1M", "horovod:64M", "p3:50000,4", "fifo:20K", "auto",
                                           NULL};

static void fault_run(const uint8_t *bytes, size_t len)
{
  struct tt_fault_rules rules;
  char *text = fuzz_text(bytes, len);
  if (tt_fault_rules_parse(&rules, text) == tuttiSuccess) FUZZ_CHECK(rules.n <= TT_FAULT_RULES);
  free(text);
}

static const char *const fault_texts[] = {"rank=1,peer=0,lane=2,side=recv,nth=3,action=delay:5ms;action=drop",
                                          "action=short:4096", "side=send,action=corrupt;action=kill", NULL};

/* ---- addresses and launchers ---- */

/* Names are not looked up: that would take seconds, and ask others. */
int getaddrinfo(const char *node, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
  static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);
  struct addrinfo numeric = hints ? *hints : (struct addrinfo){0};
  void *symbol = dlsym(RTLD_NEXT, "getaddrinfo");
  memcpy(&real, &symbol, sizeof real);
  numeric.ai_flags |= AI_NUMERICHOST;
  return real(node, service, &numeric, found);
}

static void address_run(const uint8_t *bytes, size_t len)
{
  struct tt_address address, again;
  uint8_t packed[TT_ADDRESS_PACKED_BYTES];
  char *text = fuzz_text(bytes, len), shown[TT_ADDRESS_TEXT_BYTES];
  if (tt_address_parse(&address, text) == tuttiSuccess) {
    tt_address_text(&address, shown, sizeof shown);
    FUZZ_CHECK(tt_address_parse(&again, shown) == tuttiSuccess);
    FUZZ_CHECK(again.len == address.len && memcmp(&again.any, &address.any, address.len) == 0);
    tt_address_pack(&address, packed);
    FUZZ_CHECK(tt_address_unpack(&again, packed) == tuttiSuccess);
  }
  free(text);
}

static const char *const address_texts[] = {"127.0.0.1:4711",  "[::1]:0",   "192.0.2.1:65535",
                                            "[fe80::1%lo]:12", "0.0.0.0:1",   "[::%1]:1", NULL};

/* Answers of a launcher: each line comes by itself. */
static void pmi_run(const uint8_t *bytes, size_t len)
{
  struct tt_settings settings;
  tuttiLaunch_t launch = {.proc = 1, .nprocs = 2};
  int ends[2];
  FUZZ_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  settings.init_timeout_ms = 1000;
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) return;
  while (len) {
    const uint8_t *end = memchr(bytes, '\n', len);
    size_t n = end ? (size_t)(end - bytes) + 1 : len;
    if (send(ends[1], bytes, n, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) break;
    bytes += n;
    len -= n;
  }
  shutdown(ends[1], SHUT_WR);
  (void)tt_launch_pmi(&launch, ends[0], &settings);
  close(ends[0]);
  close(ends[1]);
}

#define PMI_ID64 \
  "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0011223344556677"
static const char *const pmi_texts[] = {
    "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1\ncmd=maxes rc=0 kvsname_max=256 keylen_max=64 "
    "vallen_max=1024\n"
    "cmd=my_kvsname rc=0 kvsname=kvs_1_0\ncmd=barrier_out rc=0\ncmd=get_result rc=0 value=i" PMI_ID64 PMI_ID64
    "\ncmd=get_result rc=0 value=0\ncmd=finalize_ack rc=0\n",
    "cmd=response_to_init rc=0\ncmd=maxes vallen_max=65\ncmd=my_kvsname kvsname=k\ncmd=barrier_out\n"
    "cmd=get_result rc=0 value=e000\ncmd=get_result rc=-1 msg=no\n",
    NULL};

/* "NAME=VALUE" a line: what launchers leave in the environment. */
static const char *line_find(const void *owner, const char *name)
{
  static char values[16][512]; /* a caller keeps several */
  static int last;
  size_t len = strlen(name);
  for (const char *at = owner; *at; at += strcspn(at, "\n"), at += *at == '\n') {
    if (strncmp(at, name, len) != 0 || at[len] != '=') continue;
    size_t n = strcspn(at + len + 1, "\n");
    if (!n || n >= sizeof values[0]) return NULL;
    last = (last + 1) % 16;
    memcpy(values[last], at + len + 1, n);
    values[last][n] = 0;
    return values[last];
  }
  return NULL;
}

static void launch_run(const uint8_t *bytes, size_t len)
{
  struct tt_launch_plan plan;
  struct tt_settings settings;
  char *text = fuzz_text(bytes, len);
  FUZZ_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  if (tt_launch_plan(&plan, &settings, line_find, text) == tuttiSuccess && plan.nprocs)
    FUZZ_CHECK(plan.proc >= 0 && plan.proc < plan.nprocs);
  free(text);
}

static const char *const launch_texts[] = {
    "RANK=3\nWORLD_SIZE=8\nLOCAL_RANK=1\nLOCAL_WORLD_SIZE=2\nMASTER_ADDR=10.0.0.1\nMASTER_PORT=29500\n",
    "PMI_RANK=1\nPMI_SIZE=4\nPMI_FD=7\nMPI_LOCALRANKID=1\nMPI_LOCALNRANKS=4\n",
    "TUTTI_LAUNCH_FD=5\nTUTTI_LAUNCH_NPROCS=4\nTUTTI_LAUNCH_PROC=2\nTUTTI_LAUNCH_LOCAL_NPROCS=4\nTUTTI_LAUNCH_LOCAL_"
    "PROC=2\n",
    "SLURM_PROCID=1\nSLURM_NTASKS=2\nPMIX_NAMESPACE=x\nPMIX_RANK=1\nOMPI_COMM_WORLD_SIZE=2\n", NULL};

/* ---- files with a place of their own ---- */

static char folder[64];

static int one_remove(const char *path, const struct stat *status, int what, struct FTW *walk)
{
  (void)status, (void)what, (void)walk;
  return remove(path);
}

static void folder_remove(void)
{
  nftw(folder, one_remove, 10, FTW_DEPTH | FTW_PHYS);
}

static const char *folder_get(void)
{
  if (!*folder) {
    snprintf(folder, sizeof folder, "/tmp/tutti-fuzz-XXXXXX");
    FUZZ_CHECK(mkdtemp(folder));
    atexit(folder_remove);
  }
  return folder;
}

static void file_write(const char *path, const char *head, const uint8_t *bytes, size_t len)
{
  FILE *file = fopen(path, "w");
  FUZZ_CHECK(file && fputs(head, file) >= 0 && fwrite(bytes, 1, len, file) == len);
  fchmod(fileno(file), 0600);
  fclose(file);
}

/* Behind the right first lines. */
static void cache_run(const uint8_t *bytes, size_t len)
{
  static char head[1024], path[TT_CACHE_PATH];
  static struct tt_settings settings;
  static struct tt_cache cache, again;
  if (!*head) {
    snprintf(settings.cache, sizeof settings.cache, "%s", folder_get());
    tt_cache_store(&(struct tt_cache){.n = 0}, &settings);
    FUZZ_CHECK(tt_cache_path(path, &settings));
    FILE *file = fopen(path, "r");
    FUZZ_CHECK(file && fread(head, 1, sizeof head - 1, file) > 0);
    fclose(file);
  }
  file_write(path, head, bytes, len);
  tt_cache_load(&cache, &settings);
  FUZZ_CHECK(cache.n >= 0 && cache.n <= TT_CACHE_LINES && cache.nlearnt >= 0 && cache.nlearnt <= TT_CACHE_LEARNT);
  if (cache.n || cache.nlearnt) {
    tt_cache_store(&cache, &settings);
    tt_cache_load(&again, &settings);
    FUZZ_CHECK(again.n == cache.n && again.nlearnt == cache.nlearnt);
  }
}

static const char *const cache_texts[] = {"link kind cache transport shm alpha 1 beta -1 date 2026-11-24\nlink kind "
                                          "net transport tcp alpha 3 beta 2 date 2026-11-24\n",
                                          "learnt key 00f0aa0000000001 ranks 4 nodes 1 cores 2 transport shm "
                                          "collective all_reduce width 2 class 27 memory malloc "
                                          "algo ring middle - radix 0 block 8192 ns 9 date 2026-11-24\n",
                                          NULL};

static void key_run(const uint8_t *bytes, size_t len)
{
  char path[96];
  uint8_t key[TT_KEY_BYTES];
  snprintf(path, sizeof path, "%s/key", folder_get());
  file_write(path, "", bytes, len);
  tuttiResult_t result = tt_key_file_read(path, key);
  FUZZ_CHECK((result == tuttiSuccess) == (len >= 16 && len <= 4096));
  unlink(path);
}

static const char *const key_texts[] = {"0123456789abcdef", "too short", NULL};

/* The kernel's lists of processors, the first line those that are online. */
static void sysfs_run(const uint8_t *bytes, size_t len)
{
  static const char *const folders[] = {"",
                                        "/devices",
                                        "/devices/system",
                                        "/devices/system/cpu",
                                        "/devices/system/node",
                                        "/devices/system/node/node0",
                                        "/devices/system/cpu/cpu0",
                                        "/devices/system/cpu/cpu0/topology"};
  static const char *const files[] = {"cpu/online", "node/node0/cpulist", "cpu/cpu0/topology/core_cpus_list",
                                      "cpu/cpu0/topology/package_cpus_list", "node/online"};
  char root[80], path[256], why[TT_WHY_BYTES];
  struct tt_machine *machine = NULL;
  snprintf(root, sizeof root, "%s/sys", folder_get());
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    snprintf(path, sizeof path, "%s%s", root, folders[i]);
    mkdir(path, 0700);
  }
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
    const uint8_t *end = len ? memchr(bytes, '\n', len) : NULL;
    size_t n = end ? (size_t)(end - bytes) : len;
    snprintf(path, sizeof path, "%s/devices/system/%s", root, files[i]);
    file_write(path, "", bytes, n);
    bytes += n + (end != NULL);
    len -= n + (end != NULL);
  }
  if (tt_machine_sysfs(&machine, root, why) == tuttiSuccess && machine)
    FUZZ_CHECK(machine->nprocessors >= 0 && machine->nprocessors <= TT_MAX_PROCESSORS);
  tt_free(machine);
}

static const char *const sysfs_texts[] = {"0-3\n0-3\n0,2\n0-3\n0\n", "0,2-4,63\n0-63\n0\n0\n0-1\n", "8191\n0\n\n\n\n",
                                          NULL};

const struct fuzz_target fuzz_texts[] = {
    {"settings", settings_run, settings_texts, NULL, 0},
    {"numbers", numbers_run, numbers_texts, NULL, 0},
    {"profile", profile_run, profile_texts, NULL, 0},
    {"topology", topology_run, topology_texts, NULL, 4},
    {"rules", rules_run, rules_texts, NULL, 0},
    {"layers", layers_run, layers_texts, NULL, 0},
    {"schedule", schedule_run, schedule_texts, NULL, 0},
    {"algo", algo_run, algo_texts, NULL, 0},
    {"codec", codec_run, codec_texts, NULL, 0},
    {"policy", policy_run, policy_texts, NULL, 0},
    {"fault", fault_run, fault_texts, NULL, 0},
    {"address", address_run, address_texts, NULL, 0},
    {"pmi", pmi_run, pmi_texts, NULL, 2},
    {"launch", launch_run, launch_texts, NULL, 0},
    {"cache", cache_run, cache_texts, NULL, 4},
    {"key", key_run, key_texts, NULL, 4},
    {"sysfs", sysfs_run, sysfs_texts, NULL, 8},
    {NULL, NULL, NULL, NULL, 0},
};
