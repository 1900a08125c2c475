/* SPDX-License-Identifier: BSD-3-Clause */
/* One rank's side of the rendezvous: a connection to the root, driven by the caller's polls. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "bootstrap/root_private.h"

#define GRACE_NS 2000000000u /* after our deadline, for a sentence of the root, which knows more */
#define GONE_NS 10000000000u /* a root older than its id that refuses every dial for so long is gone */
#define LATE_NS 3000000000u  /* for ranks that were started with this one */
#define HEARD_NS 1000000000u /* for a root in this process to tell the others why this rank gave up */
#define AGAIN_NS 1000000u    /* before the second try at an address that is still taken, and twice as long each time, */
#define AGAIN_MOST_NS 16000000u /* up to this */

enum stage { OPENING, DIALING, CONNECTED, READY };
enum expect { RECORD, HEAD, PEER_INFOS, REASON };

/* More than 25 fields: the connection to the root, the round under way and the reason of a failure belong together. */
struct tt_rendezvous {
  struct tt_id id;
  const struct tt_settings *settings;
  struct tt_record mine, root, came; /* root.pid 0: not known */
  uint32_t damaged_records;
  uint64_t limit_ns, deadline_ns, look_ns;
  uint64_t late_ns; /* until then the error of this rank waits for others to hear it from the root; 0: no more */
  uint64_t again_ns, pause_ns; /* time of the next try; the pause before it */
  enum stage stage;
  enum expect expect;
  struct tt_dialer *dialer;
  int fd;
  struct tt_session session;
  struct tt_intake in;
  struct tt_outlet out;
  struct tt_start_frame head_in, head_out, peer_info_head;
  uint32_t rounds;
  int is_roots;                  /* this rank has opened the root, of a fixed or derived id */
  int in_round, peer_info_waits; /* a round is under way; our peer info for it is not on its way yet */
  int is_broadcast;
  size_t len;
  void *all;
  tuttiResult_t code;
  int is_known;                     /* the root knows that the start-up failed */
  char sentence[TT_SENTENCE_BYTES]; /* why it failed; also the buffer of a reason that comes in or goes out */
  uint8_t peer_info[TT_PEER_INFO_BYTES];
};

/* Keeps the thread's last sentence as the reason of our own failure. */
static tuttiResult_t give_up(struct tt_rendezvous *r, tuttiResult_t code)
{
  r->code = code;
  snprintf(r->sentence, sizeof r->sentence, "%s", tt_last_sentence());
  return code;
}

static const char *root_name(const struct tt_rendezvous *r, char *text, size_t size)
{
  char address[TT_ADDRESS_TEXT_BYTES];
  tt_address_text(&r->id.root, address, sizeof address);
  if (r->root.pid > 0 && r->root.host_name[0])
    snprintf(text, size, "the start-up's root (pid %d on %s, %s)", (int)r->root.pid,
             r->root.host_name, address);
  else if (r->root.pid > 0)
    snprintf(text, size, "the start-up's root (pid %d, %s)", (int)r->root.pid, address);
  else
    snprintf(text, size, "the start-up's root (%s)", address);
  return text;
}

static tuttiResult_t root_died(struct tt_rendezvous *r, int error)
{
  char name[TT_RANK_NAME_BYTES + TT_ADDRESS_TEXT_BYTES];
  root_name(r, name, sizeof name);
  if (tt_record_is_dead(&r->root, &r->mine))
    return give_up(r, tt_fail(tuttiRemoteError, "%s died during start-up", name));
  return give_up(r, tt_fail(tuttiRemoteError, "%s ended the connection during start-up (%s)", name,
                            error ? strerror(error) : "closed"));
}

/* ---- getting in ----------------------------------------------------------------------------- */

static void try_later(struct tt_rendezvous *r)
{
  r->pause_ns = r->pause_ns ? 2 * r->pause_ns : AGAIN_NS;
  if (r->pause_ns > AGAIN_MOST_NS) r->pause_ns = AGAIN_MOST_NS;
  r->again_ns = tt_now_ns() + r->pause_ns;
}

static tuttiResult_t dialer(struct tt_rendezvous *r)
{
  uint32_t dst = r->id.flags & TT_ID_DERIVED ? r->mine.rank : 0;
  struct tt_hello hello = {.kind = TT_HELLO_RENDEZVOUS, .src = r->mine.rank, .dst = dst};
  tuttiResult_t result =
      tt_dialer_start(&r->dialer, &r->id.root, &r->id.credentials, &hello, r->deadline_ns);
  if (result != tuttiSuccess) return give_up(r, result);
  if (!(r->id.flags & (TT_ID_FIXED | TT_ID_DERIVED))) tt_dialer_limit(r->dialer, GONE_NS);
  if (r->id.flags & TT_ID_USERS) tt_dialer_same_user(r->dialer);
  r->stage = DIALING;
  return tuttiInProgress;
}

/* Opens the root at the listener (for IP, or local) that the id names; it must be a listener of this process. */
static tuttiResult_t derived_root_open(struct tt_rendezvous *r, const struct tt_rendezvous_spec *spec)
{
  struct tt_address where = {.len = 0}, at;
  char name[16];
  int is_local = r->id.root.any.sa_family == AF_UNIX;
  tuttiResult_t result = is_local ? tuttiSuccess : tt_interface_choose(r->settings, &where, name);
  if (result == tuttiSuccess) result = tt_root_open(&r->id, spec->members, spec->nranks, &where, r->settings, &at);
  if (result != tuttiSuccess) return give_up(r, result);
  r->is_roots = 1;
  if (at.len == r->id.root.len && memcmp(&at.any, &r->id.root.any, at.len) == 0) return dialer(r);
  return give_up(r, tt_fail(tuttiInternalError,
                            "the listener of a new communicator is not the one that its ranks know: do not change "
                            "TUTTI_SOCKET_IFNAME between communicators"));
}

static tuttiResult_t fixed_root_open(struct tt_rendezvous *r)
{
  struct tt_address at;
  uint64_t now = tt_now_ns();
  if (now < r->again_ns) return tuttiInProgress;
  try_later(r);
  tuttiResult_t result = tt_root_open(&r->id, NULL, 0, &r->id.root, r->settings, &at);
  if (result == tuttiInProgress && now > r->deadline_ns) {
    char text[TT_ADDRESS_TEXT_BYTES];
    tt_address_text(&r->id.root, text, sizeof text);
    result = tt_fail(tuttiRemoteError,
                     "the start-up of an earlier communicator at %s is still under way in this process: "
                     "with a fixed address communicators are made one after the other",
                     text);
  }
  if (result == tuttiInProgress) return result;
  if (result != tuttiSuccess) return give_up(r, result);
  r->is_roots = 1;
  tt_root_wait(&r->id, r->limit_ns);
  return dialer(r);
}

static void connected(struct tt_rendezvous *r)
{
  r->session = *tt_dialer_session(r->dialer);
  tt_dialer_destroy(r->dialer);
  r->dialer = NULL;
  r->stage = CONNECTED;
  r->expect = RECORD;
  tt_socket_guard(r->fd, r->settings->unreachable_ms);
  tt_intake_set(&r->in, &r->came, sizeof r->came);
  tt_outlet_set(&r->out, NULL, 0, NULL, 0);
}

/* Sends our record only after the root's has come whole: until then the root does not know this rank, so that the rank
 * can come again after a damaged record. */
static void introduce(struct tt_rendezvous *r)
{
  r->stage = READY;
  tt_record_seal(&r->mine, &r->session.out);
  tt_outlet_set(&r->out, &r->mine, sizeof r->mine, NULL, 0);
}

static tuttiResult_t dial_drive(struct tt_rendezvous *r)
{
  if (!r->dialer) return tt_now_ns() < r->again_ns ? tuttiInProgress : dialer(r);
  int fd;
  tuttiResult_t result = tt_dialer_poll(r->dialer, &fd);
  if (result == tuttiInProgress) return result;
  if (result != tuttiSuccess) return give_up(r, result);
  r->fd = fd;
  connected(r);
  return tuttiSuccess;
}

/* Leaves and comes again later, because the root serves the communicator before ours, its record came damaged, or it
 * had no memory for us. */
static tuttiResult_t come_again(struct tt_rendezvous *r)
{
  close(r->fd);
  r->fd = -1;
  r->stage = DIALING;
  try_later(r);
  r->peer_info_waits = r->in_round;
  return tuttiInProgress;
}

/* ---- in and out --------------------------------------------------------------------------------- */

/* Broken connections are left to the reader to find, because a last sentence may still be there. */
static int output_drive(struct tt_rendezvous *r)
{
  int state = tt_outlet_write(&r->out, r->fd);
  if (state != 1 || !r->peer_info_waits || r->stage < READY) return state;
  size_t len = r->is_broadcast && r->mine.rank != 0 ? 0 : r->len;
  r->peer_info_waits = 0;
  r->peer_info_head =
      (struct tt_start_frame){.kind = r->is_broadcast ? TT_START_SHARE : TT_START_PEER_INFO, .len = r->len};
  tt_frame_digest(&r->peer_info_head, r->peer_info, len);
  tt_frame_seal(&r->peer_info_head, &r->session.out);
  tt_outlet_set(&r->out, &r->peer_info_head, sizeof r->peer_info_head, r->peer_info, len);
  return tt_outlet_write(&r->out, r->fd);
}

/* Sends a last frame, best effort: it finds room in the socket unless the root hangs. 1: it did. */
static int last_frame(struct tt_rendezvous *r, enum tt_start_frame_kind kind, tuttiResult_t code)
{
  if (r->stage < CONNECTED) return 0;
  if (r->stage < READY) introduce(r);
  if (tt_outlet_write(&r->out, r->fd) != 1) return 0;
  size_t len = kind == TT_START_FAILURE ? sizeof r->sentence : 0;
  r->head_out = (struct tt_start_frame){.kind = kind, .code = (uint32_t)code, .len = len};
  tt_frame_digest(&r->head_out, r->sentence, len);
  tt_frame_seal(&r->head_out, &r->session.out);
  tt_outlet_set(&r->out, &r->head_out, sizeof r->head_out, r->sentence, len);
  return tt_outlet_write(&r->out, r->fd) == 1;
}

static void expect_head(struct tt_rendezvous *r)
{
  r->expect = HEAD;
  tt_intake_set(&r->in, &r->head_in, sizeof r->head_in);
}

static tuttiResult_t broken_protocol(struct tt_rendezvous *r)
{
  char name[TT_RANK_NAME_BYTES + TT_ADDRESS_TEXT_BYTES];
  return give_up(r, tt_fail(tuttiInternalError, "%s broke the protocol (frame %u of %llu bytes)",
                            root_name(r, name, sizeof name), r->head_in.kind,
                            (unsigned long long)r->head_in.len));
}

/* Fails because of a damaged frame, and lets the others hear of it, too. */
static tuttiResult_t damaged(struct tt_rendezvous *r)
{
  char name[TT_RANK_NAME_BYTES + TT_ADDRESS_TEXT_BYTES];
  give_up(r, tt_fail(tuttiRemoteError,
                     "what %s sent " TT_DAMAGED "; start again",
                     root_name(r, name, sizeof name)));
  r->is_known = last_frame(r, TT_START_FAILURE, r->code);
  return r->code;
}

static tuttiResult_t head_arrived(struct tt_rendezvous *r)
{
  const struct tt_start_frame *head = &r->head_in;
  size_t all_len = r->is_broadcast ? r->len : r->len * r->mine.nranks;
  if (!tt_frame_is_whole(head, &r->session.in)) return damaged(r);
  if (head->kind == TT_START_PEER_INFOS && r->in_round && head->len == all_len) {
    r->expect = PEER_INFOS;
    tt_intake_set(&r->in, r->all, all_len);
    return tuttiSuccess;
  }
  if (head->kind == TT_START_FAILURE && head->len == sizeof r->sentence) {
    r->expect = REASON;
    tt_intake_set(&r->in, r->sentence, sizeof r->sentence);
    return tuttiSuccess;
  }
  if (head->kind == TT_START_LATER && !head->len && !r->rounds) return come_again(r);
  return broken_protocol(r);
}

static int root_is_here(const struct tt_rendezvous *r)
{
  return r->root.pid == r->mine.pid && r->root.start == r->mine.start && r->root.host == r->mine.host;
}

/* Ranks that come a moment later are to hear the reason, too, although this process may end, and the root with it. */
static int late_ones_hear(struct tt_rendezvous *r)
{
  if (r->late_ns && (tt_now_ns() >= r->late_ns || !tt_root_is_early(&r->id))) r->late_ns = 0;
  return r->late_ns != 0;
}

static tuttiResult_t reason_arrived(struct tt_rendezvous *r)
{
  uint32_t code = r->head_in.code;
  if (!tt_frame_fits(&r->head_in, r->sentence, sizeof r->sentence)) return damaged(r);
  int is_error = code > tuttiSuccess && code < tuttiInProgress;
  tt_text_clean(r->sentence, sizeof r->sentence);
  r->code = is_error ? (tuttiResult_t)code : tuttiRemoteError;
  r->is_known = 1;
  if (root_is_here(r)) r->late_ns = tt_now_ns() + LATE_NS;
  return tt_fail(r->code, "%s", r->sentence);
}

/* This process may end as soon as its caller knows the result. If the root is in this process, waits until the root has
 * told the others, which it does before it releases the service lock. */
static void others_hear(const struct tt_rendezvous *r)
{
  if (!root_is_here(r)) return;
  tt_service_lock();
  tt_service_unlock();
}

static tuttiResult_t record_arrived(struct tt_rendezvous *r)
{
  if (!tt_record_is_whole(&r->came, &r->session.in)) {
    r->damaged_records++;
    return come_again(r);
  }
  r->root = r->came;
  tt_record_clean(&r->root);
  introduce(r);
  output_drive(r);
  expect_head(r);
  return tuttiSuccess;
}

static tuttiResult_t peer_infos_arrived(struct tt_rendezvous *r)
{
  if (!tt_frame_fits(&r->head_in, r->all, (size_t)r->head_in.len)) return damaged(r);
  others_hear(r);
  r->in_round = 0;
  r->rounds++;
  expect_head(r);
  return tuttiSuccess;
}

/* Handles what was read. tuttiSuccess: go on reading; tuttiInProgress: not now; else an error. */
static tuttiResult_t item_arrived(struct tt_rendezvous *r)
{
  switch (r->expect) {
  case HEAD: return head_arrived(r);
  case REASON: others_hear(r); return reason_arrived(r);
  case RECORD: return record_arrived(r);
  default: return peer_infos_arrived(r);
  }
}

/* Stops at a complete round, because nothing that happens to the root afterwards undoes it. */
static tuttiResult_t input_drive(struct tt_rendezvous *r)
{
  uint32_t rounds = r->rounds;
  while (r->rounds == rounds) {
    int state = tt_intake_read(&r->in, r->fd);
    if (state == 0) break;
    if (state < 0 && r->expect == RECORD) return come_again(r);
    if (state < 0) return root_died(r, errno);
    tuttiResult_t result = item_arrived(r);
    if (result != tuttiSuccess) return result;
  }
  return tuttiSuccess;
}

static int is_idle(const struct tt_rendezvous *r)
{
  return r->stage == READY && !r->in_round && !tt_outlet_busy(&r->out);
}

/* ---- waiting -------------------------------------------------------------------------------------- */

static tuttiResult_t wait_check(struct tt_rendezvous *r)
{
  uint64_t now = tt_now_ns();
  if (now >= r->look_ns) {
    r->look_ns = now + TT_LOOK_NS;
    if (tt_record_is_dead(&r->root, &r->mine)) {
      /* The root's last frames come first. */
      tuttiResult_t result = r->fd >= 0 ? input_drive(r) : tuttiSuccess;
      if (r->code) return result;
      return is_idle(r) ? tuttiSuccess : root_died(r, 0);
    }
  }
  if (now < r->deadline_ns + GRACE_NS) return tuttiInProgress;
  char name[TT_RANK_NAME_BYTES + TT_ADDRESS_TEXT_BYTES];
  return give_up(r, tt_fail(tuttiRemoteError,
                            "%s did not answer before the start-up's deadline: %s", root_name(r, name, sizeof name),
                            r->damaged_records ? "what it says comes damaged (see TUTTI_AUTH)"
                                               : "its process hangs or is stopped"));
}

tuttiResult_t tt_rendezvous_poll(struct tt_rendezvous *r)
{
  if (r->code) return late_ones_hear(r) ? tuttiInProgress : tt_fail_quiet(r->code, r->sentence);
  if (r->stage == OPENING) fixed_root_open(r);
  if (r->stage == DIALING && !r->code) dial_drive(r);
  if (r->stage >= CONNECTED) {
    output_drive(r);
    input_drive(r);
  }
  if (r->code) return late_ones_hear(r) ? tuttiInProgress : r->code;
  return is_idle(r) ? tuttiSuccess : wait_check(r);
}

void tt_rendezvous_pollset(const struct tt_rendezvous *r, struct tt_pollset *pollset)
{
  int goes_out = tt_outlet_busy(&r->out) || (r->peer_info_waits && r->stage == READY);
  if (r->late_ns) tt_pollset_limit(pollset, tt_now_ns() + AGAIN_NS);
  else if (r->stage >= CONNECTED) tt_pollset_add(pollset, r->fd, goes_out ? POLLIN | POLLOUT : POLLIN);
  else if (r->dialer) tt_dialer_pollset(r->dialer, pollset);
  else tt_pollset_limit(pollset, r->again_ns);
}

/* ---- the outside ---------------------------------------------------------------------------------- */

static tuttiResult_t spec_check(const struct tt_rendezvous_spec *spec)
{
  if (spec->nranks < 1 || spec->nranks > TT_RANKS_MAX)
    return tt_fail(tuttiInvalidArgument, "nranks is %d: 1 to %d are possible", spec->nranks,
                   TT_RANKS_MAX);
  if (spec->rank < 0 || spec->rank >= spec->nranks)
    return tt_fail(tuttiInvalidArgument, "rank is %d: 0 to %d are possible with %d ranks", spec->rank,
                   spec->nranks - 1, spec->nranks);
  if (spec->settings->key_file[0] && !(spec->id->flags & TT_ID_MIXED))
    return tt_fail(tuttiInternalError, "tt_id_mix was not called before the rendezvous");
  return tuttiSuccess;
}

static void records_fill(struct tt_rendezvous *r, const struct tt_rendezvous_spec *spec)
{
  tt_record_fill(&r->mine);
  r->mine.nranks = (uint32_t)spec->nranks;
  r->mine.rank = (uint32_t)spec->rank;
  r->mine.agreement = spec->agreement;
  tt_settings_wire_marks(spec->settings, r->mine.marks);
  r->mine.host = spec->host;
  r->root.pid = spec->id->root_pid;
  r->root.host = spec->id->root_host;
  r->root.pid_scope = spec->id->root_pid_scope;
  r->root.start = spec->id->root_start;
}

tuttiResult_t tt_rendezvous_start(struct tt_rendezvous **rendezvous,
                                  const struct tt_rendezvous_spec *spec)
{
  tuttiResult_t result = spec_check(spec);
  if (result != tuttiSuccess) return result;
  struct tt_rendezvous *r = tt_alloc(1, sizeof *r);
  if (!r) return tt_fail(tuttiSystemError, "no memory for a rendezvous");
  r->id = *spec->id;
  r->settings = spec->settings;
  r->limit_ns = spec->limit_ns;
  r->deadline_ns = tt_now_ns() + spec->limit_ns;
  r->fd = -1;
  records_fill(r, spec);
  int opens_fixed = (r->id.flags & TT_ID_FIXED) && spec->rank == 0;
  int opens_derived = (r->id.flags & TT_ID_DERIVED) && spec->rank == 0;
  r->stage = opens_fixed ? OPENING : DIALING;
  if (spec->rank == 0) tt_root_wait(&r->id, r->limit_ns);
  result = opens_fixed ? fixed_root_open(r) : opens_derived ? derived_root_open(r, spec) : dialer(r);
  if (result != tuttiInProgress) {
    tt_rendezvous_destroy(r);
    return result;
  }
  *rendezvous = r;
  return tuttiSuccess;
}

/* Starts a round; mine NULL: this rank gives no bytes. */
static tuttiResult_t round_start(struct tt_rendezvous *r, const void *mine, size_t len, void *all)
{
  if (r->code) return tt_fail_quiet(r->code, r->sentence);
  if (r->in_round || len < 1 || len > TT_PEER_INFO_BYTES)
    return tt_fail(tuttiInternalError, "a rendezvous round of %zu bytes%s", len,
                   r->in_round ? " while another is under way" : "");
  if (mine) memcpy(r->peer_info, mine, len);
  r->len = len;
  r->all = all;
  r->in_round = r->peer_info_waits = 1;
  return tuttiSuccess;
}

tuttiResult_t tt_rendezvous_gather(struct tt_rendezvous *r, const void *mine, size_t len, void *all)
{
  tuttiResult_t result = round_start(r, mine, len, all);
  if (result == tuttiSuccess) r->is_broadcast = 0;
  return result;
}

tuttiResult_t tt_rendezvous_broadcast(struct tt_rendezvous *r, const void *mine, size_t len, void *all)
{
  tuttiResult_t result = round_start(r, r->mine.rank == 0 ? mine : NULL, len, all);
  if (result == tuttiSuccess) r->is_broadcast = 1;
  return result;
}

void tt_rendezvous_secret(const struct tt_rendezvous *r, uint8_t secret[TT_KEY_BYTES])
{
  memcpy(secret, r->root.secret, TT_KEY_BYTES);
}

/* Like others_hear, for a reason that this rank has sent: the root closes our connection when it has it. */
static void root_tells(struct tt_rendezvous *r)
{
  if (!root_is_here(r)) return;
  if (tt_service_hold() != tuttiSuccess) return; /* a child after fork */
  char bytes[4096];
  uint64_t until_ns = tt_now_ns() + HEARD_NS;
  while (tt_now_ns() < until_ns) {
    struct pollfd readable = {.fd = r->fd, .events = POLLIN};
    if (poll(&readable, 1, HEARD_NS / 10000000) <= 0) continue;
    ssize_t len = recv(r->fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) break;
  }
  others_hear(r);
  while (r->code != tuttiInvalidUsage && tt_now_ns() < until_ns && tt_root_is_early(&r->id)) tt_sleep_ns(AGAIN_NS);
  tt_service_release();
}

/* Abandons the root that this rank has opened and not joined: the root cannot see that this rank will not come. */
static void root_leave(struct tt_rendezvous *r)
{
  if (r->is_roots && r->stage < READY) tt_root_abandon(&r->id);
  r->is_roots = 0;
}

/* A rank that gives up before it has joined joins to say so, unless that takes long. For a derived id the parent's
 * watch tells the others. A root that this rank has opened is abandoned instead: if it failed, it would refuse ranks
 * that come for the next try. */
static void come_to_tell(struct tt_rendezvous *r)
{
  if (r->is_roots || (r->id.flags & TT_ID_DERIVED)) return;
  uint64_t until_ns = tt_now_ns() + HEARD_NS;
  while (r->stage == DIALING && !r->code && tt_now_ns() < until_ns) {
    struct tt_pollset pollset = {.until_ns = until_ns};
    if (dial_drive(r) != tuttiInProgress) continue;
    tt_rendezvous_pollset(r, &pollset);
    tt_pollset_sleep(&pollset);
  }
}

int tt_rendezvous_fail(struct tt_rendezvous *r, tuttiResult_t code, const char *sentence)
{
  if (!r->code) come_to_tell(r);
  if (r->code) {
    root_leave(r);
    return r->is_known;
  }
  memset(r->sentence, 0, sizeof r->sentence);
  snprintf(r->sentence, sizeof r->sentence, "%s", sentence);
  r->code = code;
  r->is_known = last_frame(r, TT_START_FAILURE, code);
  if (r->is_known) root_tells(r);
  root_leave(r);
  return r->is_known;
}

/* Reads the bytes that have come: closing with unread bytes would reset the connection, and the last
 * frame could be lost with it. */
static void throw_away(int fd)
{
  char bytes[4096];
  while (recv(fd, bytes, sizeof bytes, MSG_DONTWAIT) > 0) continue;
}

void tt_rendezvous_destroy(struct tt_rendezvous *r)
{
  if (!r) return;
  if (!r->code && r->rounds && !r->in_round) last_frame(r, TT_START_BYE, tuttiSuccess);
  tt_dialer_destroy(r->dialer);
  root_leave(r);
  if (r->fd >= 0) {
    throw_away(r->fd);
    close(r->fd);
  }
  tt_wipe(r, sizeof *r);
  tt_free(r);
}
