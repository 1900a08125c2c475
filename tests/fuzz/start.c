/* SPDX-License-Identifier: BSD-3-Clause */
/* Both ends of a start-up read hostile words over real connections, from ends that hold the key. */
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/wire_private.h"
#include "fuzz.h"

/* Made of the input: byte 0: bits 0, 1, 2: the tags of the record and of the first head, and the digest of its body,
 * are made right. */
struct said {
  int how;
  size_t n; /* so many bytes are sent, from here on: */
  struct tt_record record;
  struct tt_start_frame head;
  uint8_t body[FUZZ_BYTES];
};

static void said_make(struct said *said, const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  memset(said, 0, sizeof *said);
  said->how = (int)fuzz_take(&input, 1);
  said->n = input.left;
  fuzz_fill(&input, &said->record, said->n);
}

/* By the keys of the connection. */
static int said_send(struct said *said, const struct tt_session *session, int fd)
{
  struct tt_seal seal = session->out;
  size_t len = said->head.len < sizeof said->body ? said->head.len : 0;
  if (said->how & 1) tt_record_seal(&said->record, &seal);
  if (said->how & 4) tt_frame_digest(&said->head, said->body, len);
  if (said->how & 2) tt_frame_seal(&said->head, &seal);
  return send(fd, &said->record, said->n, MSG_NOSIGNAL) >= 0;
}

/* ---- a rank, to the root ---- */

/* Says it, and waits for the end of the connection. 0: it was not let in. */
static int root_tell(const struct tt_id *id, struct said *said)
{
  const struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = 1};
  const struct timeval patience = {.tv_sec = 20};
  struct tt_dialer *dialer;
  tuttiResult_t result;
  char answer[4096];
  int fd = -1;
  if (tt_dialer_start(&dialer, &id->root, &id->credentials, &hello, tt_now_ns() + 5000000000u) != tuttiSuccess)
    return 0;
  while ((result = tt_dialer_poll(dialer, &fd)) == tuttiInProgress) usleep(50);
  struct tt_session session = {.out.count = 0};
  if (result == tuttiSuccess) session = *tt_dialer_session(dialer);
  tt_dialer_destroy(dialer);
  if (result != tuttiSuccess) return 0;
  if (said_send(said, &session, fd)) shutdown(fd, SHUT_WR);
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  while (recv(fd, answer, sizeof answer, 0) > 0) {
  }
  close(fd);
  return 1;
}

static void start_run(const uint8_t *bytes, size_t len)
{
  static struct said said;
  struct tt_settings settings;
  struct tt_id id;
  said_make(&said, bytes, len);
  FUZZ_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  if (tt_id_create(&id, &settings) != tuttiSuccess || tt_id_mix(&id, &settings) != tuttiSuccess) return;
  if (!root_tell(&id, &said)) return;
  /* A second client ends the root if the first one did not. */
  said = (struct said){.how = 7, .n = sizeof said.record + sizeof said.head};
  said.record = (struct tt_record){.version = TUTTI_VERSION_CODE, .nranks = 2, .rank = 1, .pid = 1, .agreement = 7};
  said.head = (struct tt_start_frame){.kind = TT_START_BYE};
  (void)root_tell(&id, &said);
}

/* The first byte, a record and a frame of this kind. */
static size_t words_make(uint8_t bytes[FUZZ_BYTES], uint32_t rank, uint32_t kind, uint64_t len)
{
  struct tt_record record = {
      .version = TUTTI_VERSION_CODE, .nranks = rank ? 2 : 0, .rank = rank, .pid = 1, .agreement = 7, .host_name = "a"};
  struct tt_start_frame head = {.kind = kind, .len = len};
  bytes[0] = 7;
  memcpy(bytes + 1, &record, sizeof record);
  memcpy(bytes + 1 + sizeof record, &head, sizeof head);
  memset(bytes + 1 + sizeof record + sizeof head, 'x', len);
  return 1 + sizeof record + sizeof head + len;
}

static size_t start_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const uint32_t kinds[] = {TT_START_PEER_INFO, TT_START_BYE, TT_START_FAILURE, TT_START_SHARE, TT_START_LATER};
  if (number > 4) return 0;
  return words_make(bytes, 1, kinds[number], number == 2 ? TT_SENTENCE_BYTES : number % 2 ? 0 : 100);
}

/* ---- the root, to a rank ---- */

enum { SHARE = 40 };

static _Atomic int came; /* 1 + the client's socket */

static struct tt_session session_of;

static void welcome(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  (void)owner, (void)hello;
  if (fd < 0) return;
  session_of = *session;
  int before = atomic_exchange(&came, fd + 1);
  if (before) close(before - 1);
}

static void root_run(const uint8_t *bytes, size_t len)
{
  static struct said said;
  struct tt_settings settings;
  struct tt_address where;
  struct tt_listener *listener;
  struct tt_id id = {.nonce = 5};
  struct tt_rendezvous *rendezvous;
  struct tt_rendezvous_spec spec = {.id = &id, .nranks = 2, .rank = 1, .agreement = 7, .settings = &settings};
  uint8_t mine[SHARE] = {1}, all[2 * SHARE];
  int fd, kept = -1;
  said_make(&said, bytes, len);
  FUZZ_CHECK(tt_settings_load(&settings) == tuttiSuccess && tt_auth_init() == tuttiSuccess);
  FUZZ_CHECK(tt_address_parse(&where, "127.0.0.1:0") == tuttiSuccess);
  if (tt_listener_open(&listener, &where) != tuttiSuccess) return;
  tt_random(&id.credentials, sizeof id.credentials);
  id.root = *tt_listener_address(listener);
  spec.limit_ns = 100000000u;
  FUZZ_CHECK(tt_id_mix(&id, &settings) == tuttiSuccess);
  FUZZ_CHECK(tt_listener_admit(listener, &id.credentials, TT_HELLO_RENDEZVOUS, 0, welcome, &came) == tuttiSuccess);
  if (tt_rendezvous_start(&rendezvous, &spec) == tuttiSuccess) {
    tuttiResult_t result = tt_rendezvous_gather(rendezvous, mine, sizeof mine, all);
    while (result == tuttiSuccess && (result = tt_rendezvous_poll(rendezvous)) == tuttiInProgress) {
      if ((fd = atomic_exchange(&came, 0)) != 0) {
        if (kept >= 0) close(kept); /* it comes again */
        kept = fd - 1;
        if (said_send(&said, &session_of, kept)) shutdown(kept, SHUT_WR);
      }
      result = tuttiSuccess;
      usleep(50);
    }
    tt_rendezvous_destroy(rendezvous);
  }
  tt_listener_dismiss(listener, &came);
  tt_listener_close(listener);
  if ((fd = atomic_exchange(&came, 0)) != 0) close(fd - 1);
  if (kept >= 0) close(kept);
}

static size_t root_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const uint32_t kinds[] = {TT_START_PEER_INFOS, TT_START_FAILURE, TT_START_LATER, TT_START_PEER_INFOS};
  static const uint64_t lens[] = {2 * SHARE, TT_SENTENCE_BYTES, 0, SHARE};
  return number > 3 ? 0 : words_make(bytes, 0, kinds[number], lens[number]);
}

const struct fuzz_target fuzz_starts[] = {
    {"start", start_run, NULL, start_make, 20},
    {"root", root_run, NULL, root_make, 40},
    {NULL, NULL, NULL, NULL, 0},
};
