/* SPDX-License-Identifier: BSD-3-Clause */
/* Records that come from other processes: over the network, or in memory that they can write. Where a record has a
 * checksum the first byte of the input says whether it is made right, as most garbage is refused for that alone. */
#include <locale.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <wchar.h>

#include "auth/auth.h"
#include "base/crc32c.h"
#include "base/time.h"
#include "bootstrap/bootstrap.h"
#include "exec/private.h"
#include "fuzz.h"
#include "status/status.h"
#include "transport/tcp_link_private.h"
#include "watch/private.h"

/* ---- control frames (watch) ---- */

enum { FRAME_RANKS = 5 };

static void frames_run(const uint8_t *bytes, size_t len)
{
  struct tt_frame_reader reader = {0};
  struct tt_seal seal = {.count = 0}, in = {.count = 0};
  struct tt_frame frame;
  uint8_t *copy = malloc(len + 1);
  FUZZ_CHECK(copy);
  if (len) memcpy(copy, bytes, len);
  size_t at = 0, left = len ? len - 1 : 0, piece = len ? 1 + copy[0] / 2u : 1;
  uint32_t type;
  for (size_t whole; len && copy[0] % 2 && at + TT_FRAME_BYTES <= left; at += whole) { /* tags are made right */
    uint8_t *start = copy + 1 + at;
    memcpy(&type, start + 4, sizeof type);
    whole = type >= TT_FRAME_NOTICE ? TT_FRAME_MAX_BYTES : TT_FRAME_BYTES;
    if (at + whole > left) break;
    tt_seal_make(&seal, start, whole - TT_TAG_BYTES, start + whole - TT_TAG_BYTES);
  }
  const uint8_t *data = copy + 1;
  for (int step = 0; left && step >= 0;) {
    size_t n = left < piece ? left : piece, rest = n;
    while ((step = tt_frame_step(&reader, &in, &data, &rest, FRAME_RANKS, &frame)) == 1) {
      FUZZ_CHECK(frame.rank >= 0 && frame.rank < FRAME_RANKS);
      if (frame.type == TT_FRAME_RECORD)
        FUZZ_CHECK(frame.record.culprit >= -1 && frame.record.culprit < FRAME_RANKS &&
                   frame.record.code > tuttiSuccess && memchr(frame.record.sentence, 0, TT_SENTENCE_BYTES));
      if (frame.type == TT_FRAME_NOTICE) FUZZ_CHECK(memchr(frame.notice.sentence, 0, TT_SENTENCE_BYTES));
    }
    left -= n;
  }
  free(copy);
}

static size_t frames_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  struct tt_frame frame = {.type = (uint32_t)number + 1, .rank = 3};
  if (number > TT_FRAME_RECORD) return 0;
  if (frame.type > TT_FRAME_RECORD) frame.type = TT_FRAME_BEAT;
  if (frame.type == TT_FRAME_BEAT)
    frame.beat.call = (struct tt_call){.op = 9, .count = 77, .collective = TT_ALL_REDUCE, .type = 7, .root = -1};
  if (frame.type == TT_FRAME_GONE) frame.gone = 0x123456789u;
  if (frame.type == TT_FRAME_LOST) frame.lost = tt_lost_make(1795407482123u, TT_LOST_DEAD);
  if (frame.type == TT_FRAME_NOTICE)
    frame.notice = (struct tt_notice){.key = 7, .number = 3, .code = tuttiSystemError, .sentence = "gave up"};
  if (frame.type == TT_FRAME_TARGET) frame.target = (struct tt_target){.key = 11, .against = 2, .members = {5}};
  if (frame.type == TT_FRAME_RECORD)
    frame.record =
        (struct tt_failure){.code = tuttiRemoteError, .culprit = 2, .detector = 3, .op = 12, .sentence = "died"};
  bytes[0] = (uint8_t)(number * 30 + 1) | 1;
  struct tt_seal seal = {.count = 0};
  size_t len = 1 + tt_frame_encode(&frame, &seal, bytes + 1);
  return len + tt_frame_encode(&frame, &seal, bytes + len);
}

/* ---- the handshake (auth) ---- */

/* The first byte chooses the message; the key is known, but the sum is not made right. */
static void handshake_run(const uint8_t *bytes, size_t len)
{
  const struct tt_credentials credentials = {.key = {1}, .job = {2}};
  const struct tt_hello mine = {.kind = TT_HELLO_CONTROL, .src = 1};
  struct fuzz_bytes input = {bytes, len};
  uint8_t message[TT_REPLY_BYTES], secret[TT_KEY_BYTES], ns[TT_NONCE_BYTES] = {4}, job[TT_JOB_BYTES];
  uint8_t reply[TT_REPLY_BYTES] = {5}, challenge[TT_CHALLENGE_BYTES];
  char text[TT_VERSIONS_TEXT_BYTES];
  uint64_t epoch, status, which = fuzz_take(&input, 1);
  struct tt_hello hello;
  struct tt_session session;
  FUZZ_CHECK(tt_auth_init() == tuttiSuccess);
  fuzz_fill(&input, message, sizeof message);
  if (which % 4 == 0) {
    for (size_t n = 0; n <= sizeof message; n++)
      (void)(tt_reply_plausible(message, n) + tt_reply_is_foreign(message, n));
    (void)tt_reply_claim(message, job, &epoch);
    (void)tt_reply_seems(message);
    FUZZ_CHECK(!tt_reply_check(message, ns, &credentials, &hello)); /* nobody guesses it */
  } else if (which % 4 == 1) {
    (void)tt_reply_make(reply, message, &credentials, &mine, secret);
  } else if (which % 4 == 2) {
    tt_challenge_make(challenge, ns);
    (void)tt_verdict_seems(message);
    (void)tt_versions_text(tt_verdict_versions(message), text);
    FUZZ_CHECK(!tt_verdict_check(message, challenge, reply, &credentials, &status));
  } else { /* keys that are no keys, in a message that fits */
    tt_challenge_make(challenge, ns);
    tt_verdict_make(reply, TT_WELCOME, message, ns, &credentials, &session);
    tt_exchange_make(secret, challenge);
    tt_session_join(&session, message, challenge, message, &credentials, secret);
  }
}

static size_t handshake_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  const struct tt_credentials credentials = {.key = {9}, .job = {2}};
  const struct tt_hello mine = {.kind = TT_HELLO_CONTROL, .src = 1};
  uint8_t challenge[TT_CHALLENGE_BYTES], ns[TT_NONCE_BYTES], secret[TT_KEY_BYTES];
  if (number > 3 || tt_auth_init() != tuttiSuccess) return 0;
  bytes[0] = (uint8_t)number;
  tt_challenge_make(challenge, ns);
  memcpy(bytes + 1, challenge, sizeof challenge);
  if (number == 1) return 1 + TT_CHALLENGE_BYTES;
  if (tt_reply_make(bytes + 1, challenge, &credentials, &mine, secret) != tuttiSuccess) return 0;
  if (number == 2) tt_verdict_refuse(bytes + 1, TT_STATUS_KEY);
  return 1 + (number == 2 ? TT_VERDICT_BYTES : TT_REPLY_BYTES);
}

/* ---- ids and packed addresses ---- */

static void id_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  tuttiUniqueId packed, again;
  struct tt_id id, other;
  fuzz_fill(&input, &packed, sizeof packed);
  if (tt_id_unpack(&id, &packed) != tuttiSuccess) return;
  tt_id_pack(&id, &again);
  FUZZ_CHECK(tt_id_unpack(&other, &again) == tuttiSuccess);
  FUZZ_CHECK(other.nonce == id.nonce && other.root.len == id.root.len && other.root_pid == id.root_pid);
}

static size_t id_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const char *const addresses[] = {"127.0.0.1:4711", "[::1]:99", "192.0.2.7:1"};
  struct tt_id id = {.nonce = 5, .root_pid = 77, .root_host = 3, .flags = (uint16_t)(number % 2)};
  tuttiUniqueId packed;
  if (number > 2 || tt_address_parse(&id.root, addresses[number]) != tuttiSuccess) return 0;
  tt_id_pack(&id, &packed);
  memcpy(bytes, &packed, sizeof packed);
  return sizeof packed;
}

static void place_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  uint8_t packed[TT_ADDRESS_PACKED_BYTES], again[TT_ADDRESS_PACKED_BYTES];
  struct tt_address address, other;
  char text[TT_ADDRESS_TEXT_BYTES];
  fuzz_fill(&input, packed, sizeof packed);
  if (tt_address_unpack(&address, packed) != tuttiSuccess) return;
  FUZZ_CHECK(address.len <= sizeof address - offsetof(struct tt_address, any));
  FUZZ_CHECK(strlen(tt_address_text(&address, text, sizeof text)) < sizeof text);
  (void)tt_address_is_loopback(&address);
  tt_address_pack(&address, again);
  FUZZ_CHECK(tt_address_unpack(&other, again) == tuttiSuccess && other.len == address.len);
}

static size_t place_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static const char *const addresses[] = {"127.0.0.1:4711", "[::1]:99", "[fe80::1]:7"};
  struct tt_address address, local;
  if (number > 3 || tt_address_parse(&address, addresses[number % 3]) != tuttiSuccess) return 0;
  tt_address_local(&local, &address);
  tt_address_pack(number == 3 ? &local : &address, bytes);
  return TT_ADDRESS_PACKED_BYTES;
}

/* ---- frames of tcp links ---- */

static const struct tt_call tcp_call = {12, 1024, TT_ALL_REDUCE, tuttiFloat32, tuttiSum, 0, -1, 0};

/* Makes the checks of the first frame right, and puts its tags behind its head. Returns the new length. */
static size_t tcp_seal(uint8_t *stream, size_t n, enum tcp_check check, const struct tt_session *session)
{
  struct tcp_head first;
  struct tt_seal seal = session->in;
  struct tt_guard guard;
  uint8_t *payload = stream + sizeof first;
  if (n < sizeof first || check == TCP_UNCHECKED) return n;
  memcpy(&first, stream, sizeof first);
  size_t len = n - sizeof first < first.len ? n - sizeof first : first.len;
  if (check == TCP_CRC) {
    first.head_crc = 0;
    first.payload_crc = tt_crc32c(0, payload, len);
    first.head_crc = tt_tcp_head_crc(&first, sizeof first);
    memcpy(stream, &first, sizeof first);
    return n;
  }
  memmove(payload + TCP_TAGS_BYTES, payload, n - sizeof first);
  tt_guard_open(&guard, &seal);
  tt_guard_add(&guard, payload + TCP_TAGS_BYTES, len); /* of bytes that are decrypted to anything */
  tt_guard_tag(&guard, payload);
  tt_guard_head(&guard, stream, sizeof first + TT_TAG_BYTES, payload + TT_TAG_BYTES);
  return n + TCP_TAGS_BYTES;
}

/* Byte 0: bits 0 and 1: the checks of frames; bit 2: by peek. Bytes 1, 2: length wanted. */
static void tcp_run(const uint8_t *bytes, size_t len)
{
  static uint8_t data[65536];
  const struct tt_session session = {.in.key = {7}};
  struct fuzz_bytes input = {bytes, len};
  int how = (int)fuzz_take(&input, 1), ends[2], idle = 0;
  struct tt_head head = {tt_call_word(&tcp_call), 1 + fuzz_take(&input, 2), &tcp_call, 0};
  struct tcp_link *link;
  uint8_t stream[FUZZ_BYTES + TCP_TAGS_BYTES];
  size_t n = input.left, got = 0;
  fuzz_fill(&input, stream, n);
  n = tcp_seal(stream, n, (enum tcp_check)(how & 3), &session);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  FUZZ_CHECK(tt_tcp_link_create(&link, ends[0], (enum tcp_check)(how & 3), &session) == tuttiSuccess);
  if (send(ends[1], stream, n, MSG_NOSIGNAL) < 0) got = head.len;
  shutdown(ends[1], SHUT_WR);
  tt_tcp_recv_begin(&link->base, &head);
  for (ssize_t came = 1; got < head.len && came >= 0; got += came > 0 ? (size_t)came : 0) {
    const void *shown;
    if (how & 4) {
      came = tt_tcp_peek(&link->base, &shown, 4);
      FUZZ_CHECK(came <= (ssize_t)(head.len - got));
      if (came > 0) memcpy(data, shown, (size_t)came);
      if (came > 0) tt_tcp_consume(&link->base, (size_t)came);
    } else {
      came = tt_tcp_recv(&link->base, data, head.len - got);
    }
    idle = came ? 0 : idle + 1;
    FUZZ_CHECK(idle < 4); /* all has come, or the link ends */
  }
  tt_tcp_link_destroy(link);
  close(ends[1]);
}

static size_t tcp_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  uint16_t wanted = (uint16_t)(200 * number + 99);
  struct tcp_head first = {TCP_MAGIC, TCP_FLAG_FIRST, wanted + 1u, tt_call_word(&tcp_call), wanted + 1u, 0,
                           0,         tcp_call};
  static const uint16_t flags[] = {0, TCP_FLAG_CRC, TCP_FLAG_GUARDED, TCP_FLAG_GUARDED | TCP_FLAG_ENCRYPTED};
  if (number > 7) return 0;
  first.flags |= flags[number & 3];
  if (number > 4) first.len = 50;
  bytes[0] = (uint8_t)number;
  memcpy(bytes + 1, &wanted, 2);
  memcpy(bytes + 3, &first, sizeof first);
  memset(bytes + 3 + sizeof first, 7, wanted + 1u);
  if (number > 4) { /* the rest in a second frame */
    struct tcp_head later = first;
    later.flags = (uint16_t)(first.flags & ~TCP_FLAG_FIRST);
    later.len = wanted + 1u - 50;
    later.at = 50;
    memcpy(bytes + 3 + sizeof first + 50, &later, TCP_LATER_BYTES);
    return 3 + sizeof first + 50 + TCP_LATER_BYTES + wanted + 1u - 50;
  }
  return 3 + sizeof first + wanted + 1u;
}

/* ---- messages with tags (exec) ---- */

enum { MAIL_RANKS = 3 };

struct wire {
  struct tt_link link;
  struct fuzz_bytes bytes;
};

static void begin(struct tt_link *link, const struct tt_head *head)
{
  (void)link, (void)head;
}

static ssize_t send_all(struct tt_link *link, const void *data, size_t len)
{
  (void)link, (void)data;
  return (ssize_t)len;
}

static ssize_t wire_receive(struct tt_link *link, void *data, size_t len)
{
  struct wire *wire = (struct wire *)link;
  size_t n = wire->bytes.left < len ? wire->bytes.left : len;
  if (!n) return TT_LINK_BROKEN;
  fuzz_fill(&wire->bytes, data, n);
  return (ssize_t)n;
}

static const struct tt_link_ops wire_ops = {
    .send_begin = begin, .send = send_all, .recv_begin = begin, .recv = wire_receive};
static struct wire wires[MAIL_RANKS];

static tuttiResult_t wire_open(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  (void)transport, (void)lane;
  *link = &wires[peer].link;
  return tuttiSuccess;
}

/* The first byte cuts the rest into the streams of two ranks. */
static void messages_run(const uint8_t *bytes, size_t len)
{
  static const struct tt_transport_ops ops = {.name = "wires", .ends_links = 1, .open = wire_open};
  struct tt_transport transport = {.ops = &ops}, *transports[1] = {&transport};
  static struct tt_watch watch;
  struct tt_peer peers[MAIL_RANKS] = {{0}};
  int routes[MAIL_RANKS] = {0};
  struct tt_link *open[2 * MAIL_RANKS] = {NULL};
  struct tt_exec exec = {.nranks = MAIL_RANKS,
                         .lanes = 1,
                         .watch = &watch,
                         .ntransports = 1,
                         .transports = transports,
                         .routes = routes,
                         .open = open};
  struct tt_message receives[4];
  char room[4][300];
  struct tt_messages *engine;
  size_t page_len = (tt_page_len(MAIL_RANKS, 1) + TT_LINE - 1) / TT_LINE * TT_LINE,
         cut = len ? 1 + bytes[0] * (len - 1) / 255 : 0;
  void *page = aligned_alloc(TT_LINE, page_len);
  FUZZ_CHECK(page);
  memset(page, 0, page_len);
  memset(&watch, 0, sizeof watch);
  tt_page_format(page, MAIL_RANKS, 1);
  FUZZ_CHECK(tt_page_view(&watch.page, page, MAIL_RANKS, 1));
  watch.own = watch.page.slots;
  watch.nranks = MAIL_RANKS;
  watch.clock_ns = 1;
  watch.peers = peers;
  for (int r = 0; r < MAIL_RANKS; r++)
    wires[r] = (struct wire){.link = {.ops = &wire_ops, .transport = &transport, .peer = r, .why = "it ended"}};
  if (len) wires[1].bytes = (struct fuzz_bytes){bytes + 1, cut - 1};
  if (len) wires[2].bytes = (struct fuzz_bytes){bytes + cut, len - cut};
  FUZZ_CHECK(tt_messages_create(&engine, &exec) == tuttiSuccess);
  for (int k = 0; k < 4; k++) {
    receives[k] = (struct tt_message){.peer = k % 2 ? TT_ANY : 1 + k / 2,
                                      .tag = k == 3 ? TT_ANY : k,
                                      .data = room[k],
                                      .bytes = sizeof room[k] / (size_t)(1 + k)};
    FUZZ_CHECK(tt_messages_add(engine, &receives[k]) == tuttiSuccess);
  }
  for (int polls = 0; polls < 20; polls++) {
    int moved = 0;
    if (tt_messages_poll(engine, &moved) != tuttiSuccess) break;
    for (struct tt_message *over; (over = tt_messages_over(engine)) != NULL;)
      FUZZ_CHECK(over->result != tuttiSuccess || over->bytes <= sizeof room[0]);
  }
  tt_messages_destroy(engine);
  free(page);
}

static size_t messages_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  struct {
    uint32_t magic, len;
    uint64_t number, total, start;
    int32_t tag, source;
    char small[24];
  } head = {.magic = 0x6761546du, .number = 1};
  size_t at = 1;
  if (number > 5) return 0;
  bytes[0] = number == 3 ? 0 : 255;
  for (int k = 0; k < 1 + number; k++) {
    uint32_t len = number == 4 ? 20u : 40u * (uint32_t)(number + 1);
    head.len = len;
    head.total = number == 5 ? len * 6 : len;
    head.start = number == 5 ? len * (uint32_t)k : 0;
    head.number = number == 5 ? 1 : (uint64_t)k + 1;
    head.tag = k % 3;
    head.source = number == 3 ? 2 : 1;
    memcpy(bytes + at, &head, sizeof head);
    at += sizeof head;
    if (len > sizeof head.small) memset(bytes + at, 5, len), at += len;
  }
  return at;
}

/* ---- the status page of other processes ---- */

enum { PAGE_RANKS = 3, PAGE_SLOTS = 2 };

static void page_good(struct tt_page *page, char *memory)
{
  static const struct tt_member members[PAGE_RANKS] = {
      {.pid = 1, .host_name = "a"}, {.pid = 2, .host_name = "a"}, {.pid = 3, .host_index = 2, .host_name = "b"}};
  memset(memory, 0, tt_page_len(PAGE_RANKS, PAGE_SLOTS));
  tt_page_format(memory, PAGE_RANKS, PAGE_SLOTS);
  FUZZ_CHECK(tt_page_view(page, memory, PAGE_RANKS, PAGE_SLOTS));
  tt_page_introduce(page, members, 0, "world", 0);
  for (int s = 0; s < PAGE_SLOTS; s++)
    tt_rank_slot_enter(&page->slots[s], &(struct tt_call){.op = 4, .count = 9, .collective = TT_ALL_REDUCE, .root = -1},
                       tt_ticks());
  tt_page_hear(page, 2, 4, 3);
}

/* 1: the text disturbs no terminal, and is UTF-8. */
static int is_plain(const char *text)
{
  for (mbstate_t state = {0}; *text;) {
    wchar_t character;
    size_t n = mbrtowc(&character, text, MB_CUR_MAX, &state);
    int is_control = (character < 0x20 && character != '\n') || (character >= 0x7f && character < 0xa0);
    if (n == 0 || n > MB_CUR_MAX || is_control) return 0;
    text += n;
  }
  return 1;
}

/* Changes of a good page: a place, of 4 bytes, and a word of 8. */
static void page_run(const uint8_t *bytes, size_t len)
{
  struct fuzz_bytes input = {bytes, len};
  struct tt_page page;
  size_t size = tt_page_len(PAGE_RANKS, PAGE_SLOTS);
  char *memory[2], text[TT_JUDGED_BYTES], *shown = NULL;
  struct tt_comm_status status[2];
  size_t nshown;
  int taken = 0;
  memset(status, 0, sizeof status);
  for (int k = 0; k < 2; k++) {
    memory[k] = aligned_alloc(TT_LINE, (size + TT_LINE - 1) / TT_LINE * TT_LINE);
    FUZZ_CHECK(memory[k]);
    page_good(&page, memory[k]);
    for (int changes = 0; changes < 100 && input.left >= 12 && (k || input.left > len / 2); changes++) {
      size_t at = fuzz_take(&input, 4) % (size - 8);
      uint64_t word = fuzz_take(&input, 8);
      memcpy(memory[k] + at, &word, sizeof word);
    }
    if (tt_page_read(&page, memory[k], size)) taken += tt_status_take(&status[k], &page) == tuttiSuccess;
  }
  if (taken == 2) {
    FILE *out = open_memstream(&shown, &nshown);
    FUZZ_CHECK(out);
    tt_status_judge(&status[0], &status[1], text);
    tt_status_print(out, &status[1], text);
    tt_status_json(out, &status[1], text);
    fclose(out);
    if (setlocale(LC_CTYPE, "C.UTF-8")) FUZZ_CHECK(is_plain(shown));
    free(shown);
  }
  for (int k = 0; k < 2; k++) {
    tt_status_destroy(&status[k]);
    free(memory[k]);
  }
}

static size_t page_make(int number, uint8_t bytes[FUZZ_BYTES])
{
  static struct tt_page page;
  static char *memory;
  if (number > 40) return 0;
  if (!memory) memory = aligned_alloc(TT_LINE, (tt_page_len(PAGE_RANKS, PAGE_SLOTS) + TT_LINE - 1) / TT_LINE * TT_LINE);
  FUZZ_CHECK(memory);
  page_good(&page, memory);
  struct tt_rank_slot *slot = &page.slots[number % PAGE_SLOTS];
  const void *const places[] = {page.head,
                                &page.head->host,
                                page.head->label,
                                &page.head->winner,
                                page.gone,
                                page.lost,
                                page.names,
                                &page.names[2].host,
                                page.news,
                                &slot->beat,
                                &slot->entered,
                                &slot->finished,
                                &slot->waits,
                                &slot->moments.ticks,
                                &slot->totals[2],
                                &slot->calls[4],
                                &slot->calls[4].kind,
                                &slot->calls[4].form,
                                &slot->failure_slot,
                                &slot->failure_slot.sentence[8]};
  for (int k = 0; k < 2; k++) {
    uint32_t at = (uint32_t)((const char *)places[(number * 7 + k) % 20] - memory);
    uint64_t word = number % 3 ? (uint64_t)number << (number % 60) : ~0ull;
    memcpy(bytes + k * 12, &at, 4);
    memcpy(bytes + k * 12 + 4, &word, 8);
  }
  return 24;
}

const struct fuzz_target fuzz_records[] = {
    {"frames", frames_run, NULL, frames_make, 0},
    {"handshake", handshake_run, NULL, handshake_make, 0},
    {"id", id_run, NULL, id_make, 0},
    {"place", place_run, NULL, place_make, 0},
    {"tcp", tcp_run, NULL, tcp_make, 0},
    {"messages", messages_run, NULL, messages_make, 4},
    {"page", page_run, NULL, page_make, 8},
    {NULL, NULL, NULL, NULL, 0},
};
