/* SPDX-License-Identifier: BSD-3-Clause */
/* The unique id: its contents, and the making of a new one. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/root_private.h"

#define MAGIC 0x69747475u /* "utti" */
#define LAYOUT 2
#define PACKED_FLAGS TT_ID_FIXED
#define NAME_AGAIN_NS 100000000u /* between the first two looks for a name, and twice as long each time, */
#define NAME_AGAIN_MOST_NS 1600000000u /* up to this */
#define NAME_STEP_NS 100000000u /* the wait counts in these, so that the limits in sentences are short numbers */
#define LIMIT_LEAST_NS 1000000000u /* that a start-up has, however long the name was waited for */
#define NAME_WARN_NS 5000000000u /* after which the user is told that a name does not come */

/* The 128 bytes; little endian. */
struct packed_id {
  uint32_t magic;
  uint16_t layout, flags;
  uint8_t job[TT_JOB_BYTES], key[TT_KEY_BYTES], address[TT_ADDRESS_PACKED_BYTES];
  uint64_t host, pid_scope, start;
  int32_t pid;
  uint8_t zero[4];
  uint64_t nonce;
};
_Static_assert(sizeof(struct packed_id) == TUTTI_UNIQUE_ID_BYTES, "fixed");

void tt_id_pack(const struct tt_id *id, tuttiUniqueId *out)
{
  struct packed_id packed = {.magic = MAGIC, .layout = LAYOUT};
  packed.flags = id->flags & PACKED_FLAGS;
  memcpy(packed.job, id->credentials.job, sizeof packed.job);
  memcpy(packed.key, id->credentials.key, sizeof packed.key);
  tt_address_pack(&id->root, packed.address);
  packed.host = id->root_host;
  packed.pid_scope = id->root_pid_scope;
  packed.start = id->root_start;
  packed.pid = id->root_pid;
  packed.nonce = id->nonce;
  memcpy(out, &packed, sizeof packed);
  tt_wipe(&packed, sizeof packed);
}

tuttiResult_t tt_id_unpack(struct tt_id *id, const tuttiUniqueId *in)
{
  static const uint8_t zero[sizeof ((struct packed_id *)NULL)->zero];
  struct packed_id packed;
  struct tt_id made = {0};
  memcpy(&packed, in, sizeof packed);
  if (packed.magic != MAGIC)
    return tt_fail(tuttiInvalidArgument,
                   "the unique id was not made by tuttiGetUniqueId, or not all of its %d bytes were copied",
                   TUTTI_UNIQUE_ID_BYTES);
  if (packed.layout != LAYOUT || (packed.flags & ~PACKED_FLAGS) ||
      memcmp(packed.zero, zero, sizeof zero) != 0)
    return tt_fail(tuttiInvalidArgument,
                   "the unique id is of layout %u, and Tutti %d.%d.%d reads layout %u: it is damaged, or of another "
                   "version, so install the same one everywhere",
                   packed.layout, TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH, LAYOUT);
  tuttiResult_t result = tt_address_unpack(&made.root, packed.address);
  if (result != tuttiSuccess) return result;
  if (!made.root.len)
    return tt_fail(tuttiInvalidArgument, "the unique id has no address: it is damaged");
  made.flags = packed.flags;
  memcpy(made.credentials.job, packed.job, sizeof packed.job);
  memcpy(made.credentials.key, packed.key, sizeof packed.key);
  made.root_host = packed.host;
  made.root_pid_scope = packed.pid_scope;
  made.root_start = packed.start;
  made.root_pid = packed.pid;
  made.nonce = packed.nonce;
  *id = made;
  tt_wipe(&packed, sizeof packed);
  tt_wipe(&made, sizeof made);
  return tuttiSuccess;
}

/* ---- each id once ---- */

#define USE_BITS 3u /* of a kept hash: enum tt_use */

static uint64_t use_hash(const tuttiUniqueId *id, int rank)
{
  uint64_t hash = 0xcbf29ce484222325u ^ (uint32_t)rank;
  for (size_t b = 0; b < sizeof id->internal; b++) hash = (hash ^ (uint8_t)id->internal[b]) * 0x100000001b3u;
  hash ^= hash >> 32; /* the low bits are not kept */
  hash *= 0x9e3779b97f4a7c15u;
  return (hash | USE_BITS) ^ USE_BITS;
}

/* The place of a kept hash; NULL: it is not there. The caller holds tt_process.mutex. */
static uint64_t *use_find(uint64_t hash)
{
  uint32_t kept = tt_process.ids_used < TT_IDS_KEPT ? tt_process.ids_used : TT_IDS_KEPT;
  for (uint32_t k = 0; k < kept; k++)
    if (((tt_process.ids[k] | USE_BITS) ^ USE_BITS) == hash) return &tt_process.ids[k];
  return NULL;
}

tuttiResult_t tt_id_use(const tuttiUniqueId *id, int rank, uint64_t *used)
{
  uint64_t hash = use_hash(id, rank);
  pthread_mutex_lock(&tt_process.mutex);
  const uint64_t *before = use_find(hash);
  enum tt_use how = before ? (enum tt_use)(*before & USE_BITS) : TT_USE_NONE;
  if (!before) tt_process.ids[tt_process.ids_used++ % TT_IDS_KEPT] = hash | TT_USE_BEGUN;
  pthread_mutex_unlock(&tt_process.mutex);
  *used = how == TT_USE_NONE ? hash : 0;
  switch (how) {
  case TT_USE_BEGUN:
    return tt_fail(tuttiInvalidUsage,
                   "rank %d is claimed twice with one id in this process: give every rank its own number, and every "
                   "communicator its own id", rank);
  case TT_USE_DONE:
    return tt_fail(tuttiInvalidUsage,
                   "this id has made a communicator already, with rank %d here: tuttiCommSplit makes more, or one "
                   "tuttiGetUniqueId each", rank);
  case TT_USE_FAILED:
    return tt_fail(tuttiInvalidUsage,
                   "the start-up with this id has failed before, for rank %d here: another try needs another id on all "
                   "ranks, of tuttiGetUniqueId", rank);
  default: return tuttiSuccess;
  }
}

void tt_id_used(uint64_t used, enum tt_use how)
{
  if (!used) return;
  pthread_mutex_lock(&tt_process.mutex);
  uint64_t *kept = use_find(used);
  if (kept) *kept = how == TT_USE_NONE ? 0 : used | how;
  pthread_mutex_unlock(&tt_process.mutex);
}

tuttiResult_t tt_id_mix(struct tt_id *id, const struct tt_settings *settings)
{
  if (id->flags & TT_ID_MIXED) return tuttiSuccess;
  tuttiResult_t result = tt_auth_init();
  if (result != tuttiSuccess) return result;
  if (settings->key_file[0]) {
    uint8_t secret[TT_KEY_BYTES], open[TT_JOB_BYTES + TT_KEY_BYTES];
    result = tt_key_file_read(settings->key_file, secret);
    if (result != tuttiSuccess) return result;
    memcpy(open, id->credentials.job, TT_JOB_BYTES);
    memcpy(open + TT_JOB_BYTES, id->credentials.key, TT_KEY_BYTES);
    tt_key_derive(id->credentials.key, secret, "tutti-root", open, sizeof open);
    tt_wipe(secret, sizeof secret);
    tt_wipe(open, sizeof open);
  } else if ((id->flags & TT_ID_FIXED) && tt_address_is_loopback(&id->root) && settings->auth != TT_AUTH_NONE) {
    struct tt_address loopback = id->root;
    tt_address_local(&id->root, &loopback);
    id->flags |= TT_ID_USERS;
  }
  id->flags |= TT_ID_MIXED;
  return tuttiSuccess;
}

/* The text of an address is no secret, so something else must keep strangers out: the key file; at a loopback address
 * the kernel, which tells each end the other's user (tt_id_mix); or the user says that the risk is known. */
static tuttiResult_t secret_check(const struct tt_id *id, const char *text,
                                  const struct tt_settings *settings)
{
  if (settings->key_file[0]) return tuttiSuccess;
  if (settings->auth != TT_AUTH_NONE && tt_address_is_loopback(&id->root)) return tuttiSuccess;
  if (settings->auth != TT_AUTH_NONE)
    return tt_fail(tuttiInvalidUsage,
                   "a start-up at the fixed address %s has no secret: set TUTTI_KEY_FILE to a file with "
                   "the same secret on all hosts (mode 0600), or TUTTI_AUTH=none if everybody on this "
                   "network may join and read the job",
                   text);
  if (!atomic_exchange(&tt_process.auth_warned, 1))
    tt_log(TT_LOG_WARN,
           "TUTTI_AUTH=none: whoever reaches %s can join this job and read or falsify its data", text);
  return tuttiSuccess;
}

/* Where containers start, the name of rank 0 may come later than the other ranks. */
static tuttiResult_t address_await(struct tt_address *address, const char *text, const struct tt_settings *settings)
{
  uint64_t began = tt_now_ns(), end = began + (uint64_t)settings->init_timeout_ms * 1000000u, pause = NAME_AGAIN_NS;
  int is_told = 0, is_warned = 0;
  for (;;) {
    char sentence[TT_SENTENCE_BYTES];
    tuttiResult_t result = tt_address_parse(address, text);
    uint64_t now = tt_now_ns();
    if (result == tuttiSuccess) atomic_store(&tt_process.name_ns, (now - began) / NAME_STEP_NS * NAME_STEP_NS);
    if (result != tuttiInProgress) return result;
    snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
    if (now >= end) return tt_fail(tuttiInvalidArgument, "%s", sentence);
    int warns = !is_warned && now - began >= NAME_WARN_NS;
    if (warns || !is_told)
      tt_log(warns ? TT_LOG_WARN : TT_LOG_INFO, "%s; asked again for %llu s (TUTTI_INIT_TIMEOUT_MS)", sentence,
             (unsigned long long)((end - now + 999999999u) / 1000000000u));
    is_told = 1;
    is_warned |= warns;
    tt_sleep_ns(pause < end - now ? pause : end - now);
    if (pause < NAME_AGAIN_MOST_NS) pause *= 2;
  }
}

uint64_t tt_start_limit(const struct tt_id *id, const struct tt_settings *settings)
{
  uint64_t limit = (uint64_t)settings->init_timeout_ms * 1000000u;
  uint64_t least = limit < LIMIT_LEAST_NS ? limit : LIMIT_LEAST_NS;
  uint64_t waited = id->flags & TT_ID_FIXED ? atomic_exchange(&tt_process.name_ns, 0) : 0;
  return waited < limit - least ? limit - waited : least;
}

tuttiResult_t tt_id_fixed(struct tt_id *id, const char *text, const struct tt_settings *settings)
{
  static const uint8_t public_key[TT_KEY_BYTES];
  uint8_t job[TT_KEY_BYTES];
  struct tt_id made = {.flags = TT_ID_FIXED};
  tuttiResult_t result = tt_auth_init();
  if (result == tuttiSuccess) result = address_await(&made.root, text, settings);
  if (result == tuttiSuccess) result = secret_check(&made, text, settings);
  if (result != tuttiSuccess) return result;
  tt_key_derive(job, public_key, "tutti-fixed-job", text, strlen(text));
  memcpy(made.credentials.job, job, TT_JOB_BYTES);
  tt_key_derive(made.credentials.key, public_key, "tutti-fixed-key", text, strlen(text));
  tt_random((uint8_t *)&made.nonce, sizeof made.nonce);
  *id = made;
  return tuttiSuccess;
}

/* Opens the root at an address of this host or, if the host has none, at a local listener, because then only ranks of
 * this host can come. */
static tuttiResult_t id_open(struct tt_id *id, const struct tt_settings *settings)
{
  struct tt_address where;
  struct tt_record self;
  char name[16];
  tuttiResult_t result = tt_interface_choose(settings, &where, name);
  if (result != tuttiSuccess) return result;
  tt_random(id->credentials.job, sizeof id->credentials.job);
  tt_random(id->credentials.key, sizeof id->credentials.key);
  struct tt_id mixed = *id;
  result = tt_id_mix(&mixed, settings);
  if (result == tuttiSuccess) result = tt_root_open(&mixed, NULL, 0, &where, settings, &id->root);
  tt_wipe(&mixed, sizeof mixed);
  tt_record_fill(&self);
  id->root_pid = self.pid;
  id->root_start = self.start;
  id->root_pid_scope = self.pid_scope;
  id->root_host = tt_host_id(settings->host_id);
  return result;
}

tuttiResult_t tt_id_create(struct tt_id *id, const struct tt_settings *settings)
{
  if (settings->comm_id[0]) return tt_id_fixed(id, settings->comm_id, settings);
  struct tt_id made = {0};
  tuttiResult_t result = tt_auth_init();
  if (result == tuttiSuccess) result = id_open(&made, settings);
  if (result == tuttiSuccess) *id = made;
  tt_wipe(&made, sizeof made);
  return result;
}
