/* SPDX-License-Identifier: BSD-3-Clause */
#include <arpa/inet.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "bootstrap/launch_private.h"
#include "bootstrap/wire_private.h"

/* ---- ids ------------------------------------------------------------------------------------------ */

static void id_sample(struct tt_id *id)
{
  memset(id, 0, sizeof *id);
  id->flags = TT_ID_FIXED;
  for (int i = 0; i < TT_JOB_BYTES; i++) id->credentials.job[i] = (uint8_t)(i + 1);
  for (int i = 0; i < TT_KEY_BYTES; i++) id->credentials.key[i] = (uint8_t)(200 - i);
  assert_int_equal(tt_address_parse(&id->root, "127.0.0.1:4711"), tuttiSuccess);
  id->root_pid = 4242;
  id->root_host = 0x1122334455667788u;
  id->root_pid_scope = 0x99aabbccddeeff00u;
  id->root_start = 777;
}

static void an_id_survives_packing(void **state)
{
  (void)state;
  struct tt_id id, back;
  tuttiUniqueId packed, again;
  id_sample(&id);
  tt_id_pack(&id, &packed);
  assert_int_equal(tt_id_unpack(&back, &packed), tuttiSuccess);
  assert_int_equal(back.flags, TT_ID_FIXED);
  assert_memory_equal(&back.credentials, &id.credentials, sizeof id.credentials);
  assert_int_equal(back.root_pid, 4242);
  assert_true(back.root_host == id.root_host && back.root_start == 777);
  assert_true(back.root_pid_scope == id.root_pid_scope);
  char text[TT_ADDRESS_TEXT_BYTES];
  assert_string_equal(tt_address_text(&back.root, text, sizeof text), "127.0.0.1:4711");
  tt_id_pack(&back, &again);
  assert_memory_equal(&packed, &again, sizeof packed);
}

static void a_mixed_mark_is_never_packed(void **state)
{
  (void)state;
  struct tt_id id, back;
  tuttiUniqueId packed;
  id_sample(&id);
  id.flags |= TT_ID_MIXED;
  tt_id_pack(&id, &packed);
  assert_int_equal(tt_id_unpack(&back, &packed), tuttiSuccess);
  assert_int_equal(back.flags, TT_ID_FIXED);
}

static void a_foreign_or_damaged_id_is_refused(void **state)
{
  (void)state;
  static const size_t damaged[] = {0, 3, 4, 7, 56, 116, 119}; /* magic, layout, flags, family, zeros */
  struct tt_id id, before;
  tuttiUniqueId packed, bad;
  memset(&bad, 0, sizeof bad);
  memset(&id, 0x5a, sizeof id);
  before = id;
  assert_int_equal(tt_id_unpack(&id, &bad), tuttiInvalidArgument);
  for (size_t i = 0; i < sizeof damaged / sizeof damaged[0]; i++) {
    struct tt_id sample;
    id_sample(&sample);
    tt_id_pack(&sample, &packed);
    packed.internal[damaged[i]] = (char)(packed.internal[damaged[i]] ^ 0x40);
    if (tt_id_unpack(&id, &packed) != tuttiInvalidArgument) fail_msg("byte %zu", damaged[i]);
  }
  assert_memory_equal(&id, &before, sizeof id);
}

static void fixed_ids_of_one_text_are_equal_and_of_two_are_not(void **state)
{
  (void)state;
  struct tt_settings settings;
  struct tt_id a, b, c;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_int_equal(tt_id_fixed(&a, "127.0.0.1:5000", &settings), tuttiSuccess);
  assert_int_equal(tt_id_fixed(&b, "127.0.0.1:5000", &settings), tuttiSuccess);
  assert_int_equal(tt_id_fixed(&c, "127.0.0.1:5001", &settings), tuttiSuccess);
  assert_memory_equal(&a.credentials, &b.credentials, sizeof a.credentials);
  assert_memory_not_equal(a.credentials.key, c.credentials.key, TT_KEY_BYTES);
  assert_memory_not_equal(a.credentials.job, c.credentials.job, TT_JOB_BYTES);
}

static void a_fixed_address_needs_a_secret_loopback_or_a_word(void **state)
{
  (void)state;
  struct tt_settings settings;
  struct tt_id id;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  assert_int_equal(tt_id_fixed(&id, "192.0.2.7:5000", &settings), tuttiInvalidUsage);
  assert_non_null(strstr(tt_last_sentence(), "TUTTI_KEY_FILE"));
  assert_non_null(strstr(tt_last_sentence(), "192.0.2.7:5000"));
  assert_int_equal(tt_id_fixed(&id, "[::1]:5000", &settings), tuttiSuccess);
  settings.auth = TT_AUTH_NONE;
  assert_int_equal(tt_id_fixed(&id, "192.0.2.7:5000", &settings), tuttiSuccess);
  settings.auth = TT_AUTH_KEY;
  strcpy(settings.key_file, "/somewhere");
  assert_int_equal(tt_id_fixed(&id, "192.0.2.7:5000", &settings), tuttiSuccess);
}

static void the_key_file_changes_the_key_once(void **state)
{
  (void)state;
  char path[] = "/tmp/tutti-unit-key-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  assert_int_equal(write(fd, "a secret of more than 16 bytes", 30), 30);
  close(fd);
  struct tt_settings settings;
  struct tt_id plain, mixed, other;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  id_sample(&plain);
  mixed = other = plain;
  assert_int_equal(tt_id_mix(&other, &settings), tuttiSuccess);
  assert_memory_equal(other.credentials.key, plain.credentials.key, TT_KEY_BYTES);
  strcpy(settings.key_file, path);
  assert_int_equal(tt_id_mix(&mixed, &settings), tuttiSuccess);
  assert_memory_not_equal(mixed.credentials.key, plain.credentials.key, TT_KEY_BYTES);
  other = mixed;
  assert_int_equal(tt_id_mix(&other, &settings), tuttiSuccess);
  assert_memory_equal(other.credentials.key, mixed.credentials.key, TT_KEY_BYTES);
  other = plain;
  other.credentials.job[0] ^= 1;
  assert_int_equal(tt_id_mix(&other, &settings), tuttiSuccess);
  assert_memory_not_equal(other.credentials.key, mixed.credentials.key, TT_KEY_BYTES);
  unlink(path);
}

static void the_launch_descriptor_is_sealed_and_inherited(void **state)
{
  (void)state;
  tuttiUniqueId id, back;
  int fd;
  memset(&id, 0x3c, sizeof id);
  assert_int_equal(tt_launch_id_fd(&id, &fd), tuttiSuccess);
  assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
  assert_int_equal(pread(fd, &back, sizeof back, 0), sizeof back);
  assert_memory_equal(&id, &back, sizeof id);
  assert_int_equal(pwrite(fd, "x", 1, 0), -1);
  assert_int_equal(ftruncate(fd, 64), -1);
  assert_int_equal(ftruncate(fd, 256), -1);
  close(fd);
}

/* ---- launchers ---------------------------------------------------------------------------------------- */

/* "NAME=value NAME=value" */
static const char *words(const void *owner, const char *name)
{
  static _Thread_local char values[8][512]; /* several live at a time, as with getenv */
  static _Thread_local unsigned turn;
  char *value = values[turn++ % 8];
  size_t len = strlen(name);
  for (const char *at = owner; *at; at += strcspn(at, " "), at += strspn(at, " ")) {
    if (strncmp(at, name, len) != 0 || at[len] != '=') continue;
    snprintf(value, sizeof values[0], "%.*s", (int)strcspn(at + len + 1, " "), at + len + 1);
    return value[0] ? value : NULL;
  }
  return NULL;
}

static tuttiResult_t plan(struct tt_launch_plan *made, const char *environment, const char *comm_id, int port)
{
  struct tt_settings settings;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  strcpy(settings.comm_id, comm_id);
  settings.port = port;
  return tt_launch_plan(made, &settings, words, environment);
}

static void plan_expect(const char *environment, const char *comm_id, int port,
                        const struct tt_launch_plan *wanted)
{
  struct tt_launch_plan made;
  if (plan(&made, environment, comm_id, port) != tuttiSuccess)
    fail_msg("\"%s\": %s", environment, tt_last_sentence());
  if (made.launcher != wanted->launcher || made.nprocs != wanted->nprocs || made.proc != wanted->proc ||
      made.local_nprocs != wanted->local_nprocs || made.local_proc != wanted->local_proc ||
      strcmp(made.address, wanted->address) != 0 || (made.launcher == TT_LAUNCHER_PMI && made.fd != wanted->fd))
    fail_msg("\"%s\": launcher %d, %d of %d, %d of %d here, \"%s\"", environment, (int)made.launcher,
             made.proc, made.nprocs, made.local_proc, made.local_nprocs, made.address);
}

#define PLAN(...) (&(struct tt_launch_plan){__VA_ARGS__})
#define TUTTI "TUTTI_LAUNCH_FD=9 TUTTI_LAUNCH_NPROCS=4 TUTTI_LAUNCH_PROC=3 TUTTI_LAUNCH_LOCAL_NPROCS=2 "
#define PMI "PMI_FD=6 PMI_SIZE=4 PMI_RANK=2 "
#define TORCH "MASTER_ADDR=n0 MASTER_PORT=29500 WORLD_SIZE=4 RANK=2 "

static void launchers_are_told_apart(void **state)
{
  (void)state;
  plan_expect("", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect("MASTER_ADDR=n0", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect("SLURM_JOB_ID=9 SLURM_NTASKS=4 SLURM_PROCID=0", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect("SLURM_STEP_NUM_TASKS=1 PMI_SIZE=1", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect("SLURM_STEP_NUM_TASKS=4 RANK=0 WORLD_SIZE=1", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect(TUTTI "TUTTI_LAUNCH_LOCAL_PROC=1", "", 0, PLAN(TT_LAUNCHER_TUTTI, 4, 3, 2, 1, 9, ""));
  plan_expect(TUTTI "TUTTI_LAUNCH_LOCAL_PROC=1 PMIX_RANK=0 " TORCH, "n0:77", 0,
              PLAN(TT_LAUNCHER_TUTTI, 4, 3, 2, 1, 9, ""));
  plan_expect("RANK=1 WORLD_SIZE=2", "n0:77", 0, PLAN(TT_LAUNCHER_COMM_ID, 2, 1, 1, 0, -1, "n0:77"));
  plan_expect(TORCH, "n0:77", 0, PLAN(TT_LAUNCHER_COMM_ID, 4, 2, 1, 0, -1, "n0:77"));
  plan_expect("PMIX_RANK=3", "", 0, PLAN(TT_LAUNCHER_PMIX, 1, 0, 1, 0, -1, ""));
  plan_expect("PMIX_NAMESPACE=x " TORCH, "", 0, PLAN(TT_LAUNCHER_PMIX, 1, 0, 1, 0, -1, ""));
  plan_expect(PMI, "", 0, PLAN(TT_LAUNCHER_PMI, 4, 2, 1, 0, 6, ""));
  plan_expect(PMI "MPI_LOCALNRANKS=2 MPI_LOCALRANKID=1 SLURM_STEP_NUM_TASKS=4 " TORCH, "", 0,
              PLAN(TT_LAUNCHER_PMI, 4, 2, 2, 1, 6, ""));
  plan_expect(PMI "RANK=2 WORLD_SIZE=4", "n0:77", 0, PLAN(TT_LAUNCHER_COMM_ID, 4, 2, 1, 0, -1, "n0:77"));
  plan_expect(PMI "PMIX_RANK=0", "", 0, PLAN(TT_LAUNCHER_PMIX, 1, 0, 1, 0, -1, ""));
  plan_expect("PMI_FD=6 PMI_SIZE=1 PMI_RANK=0", "", 0, PLAN(TT_LAUNCHER_NONE, 1, 0, 1, 0, -1, ""));
  plan_expect(TORCH, "", 0, PLAN(TT_LAUNCHER_TORCHRUN, 4, 2, 1, 0, -1, "n0:29501"));
  plan_expect(TORCH, "", 4000, PLAN(TT_LAUNCHER_TORCHRUN, 4, 2, 1, 0, -1, "n0:4000"));
  plan_expect(TORCH "LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "", 0,
              PLAN(TT_LAUNCHER_TORCHRUN, 4, 2, 2, 1, -1, "n0:29501"));
  plan_expect(TORCH "LOCAL_RANK=1", "", 0, PLAN(TT_LAUNCHER_TORCHRUN, 4, 2, 1, 0, -1, "n0:29501"));
  plan_expect("MASTER_ADDR=fe80::1 MASTER_PORT=1 WORLD_SIZE=1 RANK=0", "", 0,
              PLAN(TT_LAUNCHER_TORCHRUN, 1, 0, 1, 0, -1, "[fe80::1]:2"));
}

static void plan_refused(const char *environment, const char *name, const char *value)
{
  struct tt_launch_plan made = {.nprocs = -5};
  if (plan(&made, environment, "", 0) != tuttiInvalidArgument) fail_msg("\"%s\" was accepted", environment);
  if (!strstr(tt_last_sentence(), name) || !strstr(tt_last_sentence(), value))
    fail_msg("\"%s\": \"%s\"", environment, tt_last_sentence());
  assert_int_equal(made.nprocs, -5);
}

static void contradicting_variables_are_named(void **state)
{
  (void)state;
  plan_refused("WORLD_SIZE=4 MASTER_ADDR=n0", "RANK", "not set");
  plan_refused("RANK=1 MASTER_ADDR=n0", "WORLD_SIZE", "not set");
  plan_refused("RANK=1 WORLD_SIZE=4", "MASTER_ADDR", "4");
  plan_refused("RANK=1 WORLD_SIZE=4 MASTER_ADDR=n0", "MASTER_PORT", "not set");
  plan_refused("RANK=1 WORLD_SIZE=4 MASTER_ADDR=n0 MASTER_PORT=65535", "MASTER_PORT", "65535");
  plan_refused("RANK=4 WORLD_SIZE=4 MASTER_ADDR=n0 MASTER_PORT=1", "RANK", "4");
  plan_refused("RANK=-1 WORLD_SIZE=4 MASTER_ADDR=n0", "RANK", "-1");
  plan_refused("RANK=1x WORLD_SIZE=4 MASTER_ADDR=n0", "RANK", "1x");
  plan_refused("RANK=0 WORLD_SIZE=0 MASTER_ADDR=n0", "WORLD_SIZE", "0");
  plan_refused(TORCH "LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", "LOCAL_RANK", "2");
  plan_refused(TORCH "LOCAL_RANK=2 LOCAL_WORLD_SIZE=5", "LOCAL_WORLD_SIZE", "5");
  plan_refused("PMI_FD=6 PMI_SIZE=4", "PMI_RANK", "not set");
  plan_refused("PMI_FD=6 PMI_SIZE=4 PMI_RANK=4", "PMI_RANK", "4");
  plan_refused("PMI_FD=x PMI_SIZE=4 PMI_RANK=3", "PMI_FD", "x");
  plan_refused(PMI "MPI_LOCALNRANKS=5 MPI_LOCALRANKID=1", "MPI_LOCALNRANKS", "5");
  plan_refused(TUTTI, "TUTTI_LAUNCH_LOCAL_PROC", "not set");
  plan_refused("TUTTI_LAUNCH_FD=x", "TUTTI_LAUNCH_FD", "x");
}

/* Otherwise each process would be a job of one, and say nothing. */
static void several_that_cannot_meet_are_an_error(void **state)
{
  (void)state;
  static const char *const sizes[] = {"PMI_SIZE=3", "SLURM_STEP_NUM_TASKS=4", "OMPI_COMM_WORLD_SIZE=2",
                                      "MV2_COMM_WORLD_SIZE=2", ""};
  for (int s = 0; s < 5; s++) {
    struct tt_launch_plan made = {.nprocs = -5};
    char name[64];
    snprintf(name, sizeof name, "%s is", *sizes[s] ? sizes[s] : "TUTTI_COMM_ID");
    name[strcspn(name, "=")] = 0;
    if (plan(&made, sizes[s], *sizes[s] ? "" : "n0:77", 0) != tuttiInvalidUsage) fail_msg("%s was accepted", name);
    if (!strstr(tt_last_sentence(), name)) fail_msg("\"%s\" does not name %s", tt_last_sentence(), name);
    assert_non_null(strstr(tt_last_sentence(), "WORLD_SIZE"));
    assert_int_equal(made.nprocs, -5);
  }
}

/* ---- sentences ------------------------------------------------------------------------------------------ */

static int is_in_mask(const void *owner, uint32_t rank)
{
  return (*(const uint64_t *)owner >> (rank & 63)) & 1;
}

static void ranks_expect(uint64_t in, uint32_t nranks, const char *wanted)
{
  char text[256];
  assert_string_equal(tt_ranks_text(is_in_mask, &in, nranks, text, sizeof text), wanted);
}

static void missing_ranks_are_listed_in_short(void **state)
{
  (void)state;
  ranks_expect(0x1b, 8, "ranks 2, 5-7 of 8");
  ranks_expect(0xef, 8, "rank 4 of 8");
  ranks_expect(0, 64, "ranks 0-63 of 64");
  ranks_expect(0xfe, 8, "rank 0 of 8");
  char text[256];
  uint64_t odd = 0xaaaaaaaaaaaaaaaau;
  tt_ranks_text(is_in_mask, &odd, 65536, text, sizeof text);
  assert_non_null(strstr(text, ", ... of 65536"));
  assert_true(strlen(text) < sizeof text - 1);
}

/* Two ends of a connection from address `from` to 127.0.0.1; 1 if the one has keep-alive. */
static int has_keepalive(const char *from)
{
  struct sockaddr_in here = {.sin_family = AF_INET}, there = {.sin_family = AF_INET};
  socklen_t size = sizeof there;
  int on = 0, listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  inet_pton(AF_INET, from, &here.sin_addr);
  inet_pton(AF_INET, "127.0.0.1", &there.sin_addr);
  assert_int_equal(bind(listener, (struct sockaddr *)&there, size), 0);
  assert_int_equal(listen(listener, 1), 0);
  assert_int_equal(getsockname(listener, (struct sockaddr *)&there, &size), 0);
  assert_int_equal(bind(fd, (struct sockaddr *)&here, sizeof here), 0);
  assert_int_equal(connect(fd, (struct sockaddr *)&there, sizeof there), 0);
  tt_socket_guard(fd, 3000);
  size = sizeof on;
  assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size), 0);
  close(fd);
  close(listener);
  return on != 0;
}

/* Of a kernel that has too much to do, answers to probes come late: 512 threads on 2 cores lost a connection so. */
static void only_other_hosts_are_probed(void **state)
{
  (void)state;
  assert_int_equal(has_keepalive("127.0.0.1"), 0);
  assert_int_equal(has_keepalive("127.0.0.2"), 1);
}

static void foreign_text_cannot_forge_log_lines(void **state)
{
  (void)state;
  char text[8] = {'a', '\n', 'b', 27, 'c', 127, 'd', 'e'};
  tt_text_clean(text, sizeof text);
  assert_string_equal(text, "a?b?c?d");
}

int main(void)
{
  alarm(30);
  setenv("TUTTI_DEBUG", "NONE", 0);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(an_id_survives_packing),
      cmocka_unit_test(a_mixed_mark_is_never_packed),
      cmocka_unit_test(a_foreign_or_damaged_id_is_refused),
      cmocka_unit_test(fixed_ids_of_one_text_are_equal_and_of_two_are_not),
      cmocka_unit_test(a_fixed_address_needs_a_secret_loopback_or_a_word),
      cmocka_unit_test(the_key_file_changes_the_key_once),
      cmocka_unit_test(the_launch_descriptor_is_sealed_and_inherited),
      cmocka_unit_test(launchers_are_told_apart),
      cmocka_unit_test(contradicting_variables_are_named),
      cmocka_unit_test(several_that_cannot_meet_are_an_error),
      cmocka_unit_test(missing_ranks_are_listed_in_short),
      cmocka_unit_test(only_other_hosts_are_probed),
      cmocka_unit_test(foreign_text_cannot_forge_log_lines),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
