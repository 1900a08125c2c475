/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs transport: one device per rank, one queue pair per peer and lane, made when the link is first opened.
 * verbs_private.h specifies the protocol. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/verbs_facts_private.h"
#include "transport/verbs_private.h"

/* For peers, before links are opened; zeros: this rank has no listener. */
struct peer_info {
  uint8_t listener[TT_ADDRESS_PACKED_BYTES];
  uint8_t gid[16];
  uint8_t layer; /* IBV_LINK_LAYER_* */
  uint8_t zero[7];
};
_Static_assert(sizeof(struct peer_info) <= TT_TRANSPORT_PEER_INFO_BYTES, "a peer info is short");

/* The bytes that one side writes over the socket, in order; it reads as many. */
struct talk {
  struct verbs_record record;
  uint8_t record_tag[TT_TAG_BYTES];
  char ready;
  uint8_t ready_tag[TT_TAG_BYTES];
  char proven;
  uint8_t proven_tag[TT_TAG_BYTES];
};

/* The work of a side before each part of its talk: makes its queue pair, joins it with the peer's, proves the path. */
enum stage { MAKING, JOINING, PROVING, OPEN };
static const struct {
  size_t at, len; /* the tag is behind it */
} parts[] = {{0, sizeof(struct verbs_record)}, {offsetof(struct talk, ready), 1}, {offsetof(struct talk, proven), 1}};

/* The link to one peer on one lane, in the making or open. */
struct slot {
  struct verbs_link *link;
  struct tt_dialer *dialer;
  int client;            /* a socket that waits for open; -1: none. Under the service lock, as is: */
  int is_taken;          /* open has taken its client */
  struct tt_session session; /* keys of the talk */
  int fd;                /* socket of the talk; -1: none. It stays, and shows when the peer is gone */
  size_t said, heard;    /* bytes of the talk */
  struct talk mine, theirs;
  enum stage stage;
  int is_done;           /* this side's work of the stage is done */
  int refuses;           /* this side has no link to give */
  int is_none;           /* both sides know that one of them has no link to give */
  uint64_t deadline_ns;  /* of open; 0: not asked for yet */
  tuttiResult_t failed;
};

struct verbs {
  struct tt_transport base;
  const struct tt_transport_spec *spec;
  struct verbs_device device;
  struct tt_address here;       /* of the listener; len 0: none */
  struct tt_address *listeners; /* [nranks], from connect on; len 0: not reached */
  union ibv_gid *gids;          /* [nranks] */
  struct slot *slots;           /* [nranks * lanes] */
  int is_halted;
  char why_none[TT_SENTENCE_BYTES]; /* of the newest slot that is_none */
};

static size_t slot_count(const struct verbs *verbs)
{
  return verbs->slots ? (size_t)verbs->spec->nranks * (size_t)verbs->spec->lanes : 0;
}

static struct slot *slot_at(const struct verbs *verbs, int peer, int lane)
{
  return &verbs->slots[(size_t)peer * (size_t)verbs->spec->lanes + (size_t)lane];
}

/* Everything that a link will need is tried once, so that too small a limit of locked memory is seen here. */
static const char *unusable(const struct tt_settings *settings, char *why, size_t size)
{
  struct verbs_device device;
  struct verbs_link *link = NULL;
  struct verbs_record record;
  if (settings->auth >= TT_AUTH_DATA) {
    snprintf(why, size, "TUTTI_AUTH is %s, and RDMA devices move data without it: tcp can do it",
             settings->auth == TT_AUTH_DATA ? "data" : "encrypt");
    return why;
  }
  if (!tt_verbs_device_open(&device, settings, why, size)) return why;
  tuttiResult_t result = tt_verbs_link_create(&link, &device, settings, &record);
  if (result != tuttiSuccess) snprintf(why, size, "%s", tt_last_sentence());
  tt_verbs_link_destroy(link);
  tt_verbs_device_close(&device);
  return result == tuttiSuccess ? NULL : why;
}

/* ---- clients: in the service thread, under its lock ------------------------------------------- */

static void client_arrives(void *owner, const struct tt_hello *hello, const struct tt_session *session, int fd)
{
  struct verbs *verbs = owner;
  if (hello->src >= (uint32_t)verbs->spec->rank || hello->lane >= verbs->spec->lanes) {
    close(fd);
    return;
  }
  struct slot *slot = slot_at(verbs, (int)hello->src, hello->lane);
  /* If two clients wait, the second counts: its dialer has given up the first, whose welcome was lost. */
  int unwanted = slot->is_taken ? fd : slot->client;
  if (!slot->is_taken) {
    slot->client = fd;
    slot->session = *session;
  }
  if (unwanted >= 0) close(unwanted);
}

static int client_take(struct slot *slot)
{
  tt_service_lock();
  int fd = slot->client;
  slot->client = -1;
  slot->is_taken = fd >= 0;
  tt_service_unlock();
  return fd;
}

/* ---- life ---------------------------------------------------------------------------------- */

/* The peer has ended, or given up the link: nothing more arrives there. */
static int is_gone(const struct slot *slot)
{
  char byte;
  ssize_t n = recv(slot->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR);
}

static int is_owing(const struct slot *slot)
{
  return slot->stage == OPEN && !tt_verbs_link_is_sent(slot->link) && !is_gone(slot);
}

/* Lets data that was sent in good order arrive: waits for the devices of the peers, never for their programs, and no
 * longer than it takes to call a host unreachable. */
static void linger(struct verbs *verbs)
{
  uint64_t deadline = tt_now_ns() + (uint64_t)verbs->spec->settings->unreachable_ms * 1000000u;
  size_t left;
  do {
    left = 0;
    for (size_t i = 0; i < slot_count(verbs); i++) left += (size_t)is_owing(&verbs->slots[i]);
    if (left) sched_yield();
  } while (left > 0 && tt_now_ns() < deadline);
}

static void slot_close(struct slot *slot)
{
  tt_verbs_link_destroy(slot->link);
  tt_dialer_destroy(slot->dialer);
  if (slot->client >= 0) close(slot->client);
  if (slot->fd >= 0) close(slot->fd);
}

static void destroy(struct tt_transport *transport)
{
  struct verbs *verbs = (struct verbs *)transport;
  if (!verbs) return;
  if (verbs->spec->ip_listener) tt_listener_dismiss(verbs->spec->ip_listener, verbs);
  if (!verbs->is_halted) linger(verbs);
  for (size_t i = 0; i < slot_count(verbs); i++) slot_close(&verbs->slots[i]);
  tt_verbs_memory_destroy(verbs->device.memory);
  tt_verbs_device_close(&verbs->device);
  tt_free(verbs->slots);
  tt_free(verbs->gids);
  tt_free(verbs->listeners);
  tt_free(verbs);
}

static void halt(struct tt_transport *transport)
{
  struct verbs *verbs = (struct verbs *)transport;
  verbs->is_halted = 1;
  for (size_t i = 0; i < slot_count(verbs); i++) {
    if (verbs->slots[i].link) tt_verbs_link_halt(verbs->slots[i].link);
    if (verbs->slots[i].fd >= 0) shutdown(verbs->slots[i].fd, SHUT_RDWR); /* the peer need not wait for this end */
  }
  tt_verbs_memory_halt(verbs->device.memory);
}

static tuttiResult_t register_memory(struct tt_transport *transport, const struct tt_registered *memory, void **handle)
{
  return tt_verbs_memory_register(((struct verbs *)transport)->device.memory, memory, handle);
}

static void deregister_memory(struct tt_transport *transport, void *handle)
{
  tt_verbs_memory_deregister(((struct verbs *)transport)->device.memory, handle);
}

/* Clients are admitted before the peers can know the address, so that none comes too early. */
static tuttiResult_t listener_use(struct verbs *verbs, void *peer_info)
{
  const struct tt_transport_spec *spec = verbs->spec;
  if (!spec->ip_listener) return tuttiSuccess;
  struct peer_info mine = {.layer = verbs->device.attributes.link_layer};
  verbs->here = *tt_listener_address(spec->ip_listener);
  tt_address_pack(&verbs->here, mine.listener);
  memcpy(mine.gid, verbs->device.gid.raw, sizeof mine.gid);
  memcpy(peer_info, &mine, sizeof mine);
  return tt_listener_admit(spec->ip_listener, spec->credentials, TT_HELLO_QUEUE_PAIR, (uint32_t)spec->rank,
                           client_arrives, verbs);
}

static tuttiResult_t parts_make(struct verbs *verbs, void *peer_info)
{
  const struct tt_transport_spec *spec = verbs->spec;
  size_t count = (size_t)spec->nranks * (size_t)spec->lanes;
  char why[256];
  verbs->slots = tt_alloc(count, sizeof *verbs->slots);
  verbs->listeners = tt_alloc((size_t)spec->nranks, sizeof *verbs->listeners);
  verbs->gids = tt_alloc((size_t)spec->nranks, sizeof *verbs->gids);
  for (size_t i = 0; i < slot_count(verbs); i++) verbs->slots[i].client = verbs->slots[i].fd = -1;
  if (!verbs->slots || !verbs->listeners || !verbs->gids)
    return tt_fail(tuttiSystemError, "no memory for the verbs transport of %d ranks", spec->nranks);
  if (!tt_verbs_device_open(&verbs->device, spec->settings, why, sizeof why))
    return tt_fail(tuttiSystemError, "verbs: %s", why);
  tuttiResult_t result = tt_verbs_memory_create(&verbs->device.memory, &verbs->device);
  if (result != tuttiSuccess) return result;
  return listener_use(verbs, peer_info);
}

static tuttiResult_t create(struct tt_transport **transport, const struct tt_transport_spec *spec, void *peer_info)
{
  struct verbs *verbs = tt_alloc(1, sizeof *verbs);
  if (!verbs) return tt_fail(tuttiSystemError, "no memory for the verbs transport");
  verbs->base.ops = &tt_transport_verbs;
  verbs->spec = spec;
  memset(peer_info, 0, TT_TRANSPORT_PEER_INFO_BYTES);
  tuttiResult_t result = parts_make(verbs, peer_info);
  if (result != tuttiSuccess) {
    destroy(&verbs->base);
    return result;
  }
  *transport = &verbs->base;
  return tuttiSuccess;
}

static tuttiResult_t connect_all(struct tt_transport *transport, const void *peer_infos, size_t stride)
{
  struct verbs *verbs = (struct verbs *)transport;
  for (int peer = 0; peer < verbs->spec->nranks; peer++) {
    static const struct peer_info none;
    struct peer_info peer_info;
    memcpy(&peer_info, (const uint8_t *)peer_infos + (size_t)peer * stride, sizeof peer_info);
    verbs->listeners[peer].len = 0;
    /* There is no path between Ethernet and InfiniBand; both sides see both peer infos, so they decide alike. */
    if (memcmp(&peer_info, &none, sizeof none) == 0 || peer_info.layer != verbs->device.attributes.link_layer) continue;
    memcpy(&verbs->gids[peer], peer_info.gid, sizeof peer_info.gid);
    tuttiResult_t result = tt_address_unpack(&verbs->listeners[peer], peer_info.listener);
    if (result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}

static int reaches(const struct tt_transport *transport, int peer)
{
  const struct verbs *verbs = (const struct verbs *)transport;
  return peer != verbs->spec->rank && verbs->here.len > 0 && verbs->listeners[peer].len > 0;
}

/* ---- open ------------------------------------------------------------------------------------ */

static tuttiResult_t dial_go(struct verbs *verbs, int peer, int lane)
{
  const struct tt_transport_spec *spec = verbs->spec;
  struct slot *slot = slot_at(verbs, peer, lane);
  if (!slot->dialer) {
    struct tt_hello hello = {.kind = TT_HELLO_QUEUE_PAIR, .lane = (uint16_t)lane, .src = (uint32_t)spec->rank,
                             .dst = (uint32_t)peer};
    tuttiResult_t result =
        tt_dialer_start(&slot->dialer, &verbs->listeners[peer], spec->credentials, &hello, slot->deadline_ns);
    if (result != tuttiSuccess) return result;
  }
  tuttiResult_t result = tt_dialer_poll(slot->dialer, &slot->fd);
  if (result == tuttiInProgress) return result;
  slot->session = *tt_dialer_session(slot->dialer);
  tt_dialer_destroy(slot->dialer);
  slot->dialer = NULL;
  return result;
}

/* A socket to the peer, in slot->fd. */
static tuttiResult_t socket_get(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  if (slot->fd >= 0) return tuttiSuccess;
  if (peer > verbs->spec->rank) return dial_go(verbs, peer, lane);
  slot->fd = client_take(slot);
  return slot->fd >= 0 ? tuttiSuccess : tuttiInProgress;
}

/* Puts the tag behind this side's part of a stage. */
static void part_seal(struct slot *slot)
{
  uint8_t *part = (uint8_t *)&slot->mine + parts[slot->stage].at;
  tt_seal_make(&slot->session.out, part, parts[slot->stage].len, part + parts[slot->stage].len);
}

static int part_fits(struct slot *slot)
{
  const uint8_t *part = (const uint8_t *)&slot->theirs + parts[slot->stage].at;
  return tt_seal_fits(&slot->session.in, part, parts[slot->stage].len, part + parts[slot->stage].len);
}

/* Writes on until the first `len` bytes of the talk are written. */
static tuttiResult_t say(struct slot *slot, int peer, size_t len)
{
  while (slot->said < len) {
    ssize_t n = send(slot->fd, (const char *)&slot->mine + slot->said, len - slot->said, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return tuttiInProgress;
    if (n < 0)
      return tt_fail(tuttiRemoteError, "rank %d gave up while a queue pair was made with it: %s", peer,
                     strerror(errno));
    slot->said += (size_t)n;
  }
  return tuttiSuccess;
}

/* Reads on until the first `len` bytes of the peer's talk are there. */
static tuttiResult_t hear(struct slot *slot, int peer, size_t len)
{
  while (slot->heard < len) {
    ssize_t n = recv(slot->fd, (char *)&slot->theirs + slot->heard, len - slot->heard, MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return tuttiInProgress;
    if (n < 0)
      return tt_fail(tuttiRemoteError, "rank %d gave up while a queue pair was made with it: %s", peer,
                     strerror(errno));
    if (n == 0)
      return tt_fail(tuttiRemoteError, "rank %d gave up while a queue pair was made with it: its log says why", peer);
    slot->heard += (size_t)n;
  }
  return tuttiSuccess;
}

static int is_idle(const struct verbs *verbs)
{
  int idle = 1;
  for (size_t i = 0; i < slot_count(verbs) && idle; i++)
    idle = !verbs->slots[i].link || tt_verbs_link_is_idle(verbs->slots[i].link);
  return idle;
}

/* If the limit of locked memory is reached, the link's ring goes before blocks of the heap, whose regions it frees. */
static tuttiResult_t link_make(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  const struct tt_settings *settings = verbs->spec->settings;
  tuttiResult_t result = tt_verbs_link_create(&slot->link, &verbs->device, settings, &slot->mine.record);
  if (result != tuttiSuccess && is_idle(verbs) && tt_verbs_memory_spare(verbs->device.memory))
    result = tt_verbs_link_create(&slot->link, &verbs->device, settings, &slot->mine.record);
  if (result != tuttiSuccess) return result;
  slot->mine.ready = VERBS_READY;
  slot->mine.proven = VERBS_PROVEN;
  slot->link->base.transport = &verbs->base;
  slot->link->base.peer = peer;
  slot->link->base.lane = lane;
  return tuttiSuccess;
}

static tuttiResult_t stage_work(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  switch (slot->stage) {
  case MAKING: return link_make(verbs, peer, lane);
  case JOINING:
    return tt_verbs_link_join(slot->link, verbs->spec->settings, &slot->mine.record, &slot->theirs.record);
  default: return tt_verbs_link_prove(slot->link);
  }
}

/* This side cannot do its work, and tells the peer so. The first refusal is a warning in the log, because the next
 * transport may be much slower. */
static void refuse(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  tt_log(verbs->why_none[0] ? TT_LOG_INFO : TT_LOG_WARN,
         "no verbs link to rank %d on lane %d, so the next of TUTTI_TRANSPORTS is used: %s", peer, lane,
         tt_last_sentence());
  snprintf(verbs->why_none, sizeof verbs->why_none, "%s", tt_last_sentence());
  if (slot->stage == MAKING) slot->mine.record = (struct verbs_record){.magic = VERBS_NO_MAGIC};
  if (slot->stage == JOINING) slot->mine.ready = VERBS_NO;
  slot->mine.proven = VERBS_NO;
  slot->refuses = 1;
}

/* 1: the peer has no link to give. 0: it has done its work. Else TT_LINK_BROKEN: nonsense. */
static int peer_refuses(const struct slot *slot)
{
  const struct talk *theirs = &slot->theirs;
  if (slot->stage == MAKING) return theirs->record.magic == VERBS_NO_MAGIC; /* join checks the rest */
  char said = slot->stage == JOINING ? theirs->ready : theirs->proven;
  if (said == VERBS_NO) return 1;
  return said == (slot->stage == JOINING ? VERBS_READY : VERBS_PROVEN) ? 0 : (int)TT_LINK_BROKEN;
}

static tuttiResult_t none(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  if (!slot->refuses) {
    snprintf(verbs->why_none, sizeof verbs->why_none, "rank %d has no verbs link for rank %d: its log says why", peer,
             verbs->spec->rank);
    tt_log(TT_LOG_INFO, "lane %d: %s; the next of TUTTI_TRANSPORTS is used", lane, verbs->why_none);
  }
  tt_verbs_link_destroy(slot->link);
  slot->link = NULL;
  slot->is_none = 1;
  return tuttiSuccess;
}

/* Goes on as far as it can: to OPEN, or to is_none. */
static tuttiResult_t open_step(struct verbs *verbs, int peer, int lane)
{
  struct slot *slot = slot_at(verbs, peer, lane);
  tuttiResult_t result = socket_get(verbs, peer, lane);
  while (result == tuttiSuccess && slot->stage < OPEN) {
    size_t len = parts[slot->stage].at + parts[slot->stage].len + TT_TAG_BYTES;
    if (!slot->is_done) result = stage_work(verbs, peer, lane);
    if (result == tuttiSystemError) refuse(verbs, peer, lane);
    else if (result != tuttiSuccess) return result;
    if (!slot->is_done) part_seal(slot);
    slot->is_done = 1;
    result = say(slot, peer, len);
    if (result == tuttiSuccess && slot->refuses) return none(verbs, peer, lane);
    if (result == tuttiSuccess) result = hear(slot, peer, len);
    if (result != tuttiSuccess) return result;
    if (!part_fits(slot))
      return tt_fail(tuttiRemoteError, "what rank %d sent for a queue pair came changed: its tag does not fit (see "
                     "TUTTI_AUTH)", peer);
    int refuses = peer_refuses(slot);
    if (refuses > 0) return none(verbs, peer, lane);
    if (refuses < 0) return tt_fail(tuttiRemoteError, "rank %d wrote nonsense when its queue pair was ready", peer);
    slot->is_done = 0;
    slot->stage++;
  }
  return result;
}

static tuttiResult_t late(const struct verbs *verbs, int peer, int lane)
{
  char here[TT_ADDRESS_TEXT_BYTES], there[TT_ADDRESS_TEXT_BYTES];
  return tt_fail(tuttiRemoteError,
                 "rank %d (%s) made no queue pair with rank %d (%s) on lane %d within %lld ms: see whether it lives, "
                 "whether a firewall is between them, or raise TUTTI_INIT_TIMEOUT_MS",
                 peer, tt_address_text(&verbs->listeners[peer], there, sizeof there), verbs->spec->rank,
                 tt_address_text(&verbs->here, here, sizeof here), lane,
                 (long long)verbs->spec->settings->init_timeout_ms);
}

static tuttiResult_t open_link(struct tt_transport *transport, int peer, int lane, struct tt_link **link)
{
  struct verbs *verbs = (struct verbs *)transport;
  if (peer < 0 || peer >= verbs->spec->nranks || lane < 0 || lane >= verbs->spec->lanes || !reaches(transport, peer))
    return tt_fail(tuttiInternalError, "verbs link from rank %d to rank %d on lane %d: there is none",
                   verbs->spec->rank, peer, lane);
  struct slot *slot = slot_at(verbs, peer, lane);
  if (slot->failed != tuttiSuccess) return slot->failed;
  if (slot->deadline_ns == 0)
    slot->deadline_ns = tt_now_ns() + (uint64_t)verbs->spec->settings->init_timeout_ms * 1000000u;
  if (slot->stage != OPEN && !slot->is_none) {
    tuttiResult_t result = open_step(verbs, peer, lane);
    int is_late = !tt_lane_is_patient(verbs->spec, lane) && tt_now_ns() > slot->deadline_ns;
    if (result == tuttiInProgress && is_late) result = late(verbs, peer, lane);
    if (result == tuttiInProgress) return result;
    slot->failed = result;
    if (result != tuttiSuccess) return result;
  }
  *link = slot->is_none ? NULL : &slot->link->base;
  return slot->is_none ? tt_fail_quiet(tuttiSuccess, verbs->why_none) : tuttiSuccess;
}

/* ---- information ----------------------------------------------------------------------------- */

static int descriptors(const struct tt_transport *transport)
{
  const struct verbs *verbs = (const struct verbs *)transport;
  int used = 3; /* the device's: for commands, for events and for completions */
  tt_service_lock();
  for (size_t i = 0; i < slot_count(verbs); i++) {
    const struct slot *slot = &verbs->slots[i];
    used += (slot->fd >= 0) + (slot->dialer != NULL) + (slot->client >= 0);
  }
  tt_service_unlock();
  return used;
}

static size_t held(const struct tt_transport *transport)
{
  const struct verbs *verbs = (const struct verbs *)transport;
  size_t bytes = 0;
  for (size_t i = 0; i < slot_count(verbs); i++)
    if (verbs->slots[i].link) bytes += tt_verbs_link_bytes(verbs->slots[i].link);
  return bytes;
}

static const char *path(const struct tt_transport *transport, int peer, char *text, size_t size)
{
  const struct verbs *verbs = (const struct verbs *)transport;
  const struct verbs_device *device = &verbs->device;
  char here[INET6_ADDRSTRLEN] = "?", there[INET6_ADDRSTRLEN] = "?";
  inet_ntop(AF_INET6, device->gid.raw, here, sizeof here);
  inet_ntop(AF_INET6, verbs->gids[peer].raw, there, sizeof there);
  snprintf(text, size, "verbs %s port %d, GID %u %s -> %s", device->name, device->port, device->gid_index, here, there);
  return text;
}

const struct tt_transport_ops tt_transport_verbs = {
    TT_VERBS_FACTS,
    .unusable = unusable,
    .create = create,
    .connect = connect_all,
    .reaches = reaches,
    .open = open_link,
    .descriptors = descriptors,
    .held = held,
    .path = path,
    .register_memory = register_memory,
    .deregister_memory = deregister_memory,
    .halt = halt,
    .destroy = destroy,
};
