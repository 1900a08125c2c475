/* SPDX-License-Identifier: BSD-3-Clause */
/* A transport moves bytes between two ranks, in order per (pair, lane), and knows
 * nothing else. It owns no thread and never blocks; the data path allocates nothing.
 *
 * A *link* joins this rank with one peer on one lane, in both directions. A *message* is a call
 * word and a known number of bytes (> 0); both sides compute the number, and a number on the wire
 * decides nothing. Per direction a link carries one message after the other. All functions of
 * a transport and its links are called by one thread at a time. */
#ifndef TT_TRANSPORT_H
#define TT_TRANSPORT_H

#include <sys/types.h>

#include "net/net.h"

#define TT_MAX_LANES 8                    /* of operations */
#define TT_MAX_LINKS (TT_MAX_LANES + 1)   /* between two ranks: there is one more lane, of messages with tags */
#define TT_TRANSPORT_PEER_INFO_BYTES 80 /* every rank gets the peer infos of all */
#define TT_QUICK_BYTES 8192 /* the longest quick_bytes */
#define TT_BLOCK_BYTES_MEMORY (128u << 10) /* block_bytes of transports through memory that both ranks map */
#define TT_BLOCK_BYTES_SOCKET (512u << 10) /* block_bytes of transports through a network */

/* Results of the link functions that are not a number of bytes. */
#define TT_LINK_BROKEN ((ssize_t)-1)   /* the connection is lost for good: link->why says how */
#define TT_LINK_MISMATCH ((ssize_t)-2) /* the arriving message is another call's: link->seen_* */

/* Head of every message. */
struct tt_head {
  uint64_t word;              /* tt_call_word(call), possibly mixed by tt_word_after; TT_WORD_OVERFLOW may be set, and
                                 does not count in comparisons */
  uint64_t len;               /* bytes of payload, > 0 */
  const struct tt_call *call; /* lives as long as the message is under way */
  uint64_t same;              /* outgoing messages of this transport with the same number here carry the same bytes, and
                                 later ones have another number; 0: no other message carries these bytes */
};

struct tt_transport;
struct tt_link;

/* Every transport's link struct begins with this one. */
struct tt_link {
  const struct tt_link_ops *ops;
  struct tt_transport *transport;
  int peer, lane;
  uint64_t seen_word;       /* of the newest message of which something arrived; with TT_WORD_OVERFLOW if its sender set
                               that, whatever was expected. After TT_LINK_MISMATCH: the word that arrived instead */
  struct tt_call seen_call; /* after TT_LINK_MISMATCH; op 0 if the transport does not carry it */
  size_t quick_bytes;       /* longest message that put takes and look shows; 0: the link has neither */
  char why[160];            /* the reason, after TT_LINK_BROKEN */
};

struct tt_link_ops {
  /* Begins the next outgoing message. The previous one must have been sent to its last byte.
   * Moves nothing yet; cannot fail. */
  void (*send_begin)(struct tt_link *link, const struct tt_head *head);

  /* Takes up to `len` of the message's next bytes from `data`; returns how many were taken, 0 if
   * there is no room now, or TT_LINK_BROKEN. Bytes taken may be overwritten at once. The caller leaves bytes
   * not taken unchanged and in place, because the peer may be reading them there, and offers them again, possibly with
   * more behind them, until they are taken or the transport is halted. Fewer than 16 bytes may be left over as long as
   * they do not end the message, and a call may stop early to let other links have a turn. */
  ssize_t (*send)(struct tt_link *link, const void *data, size_t len);

  /* Begins to expect the next incoming message. The previous one must have been consumed. */
  void (*recv_begin)(struct tt_link *link, const struct tt_head *head);

  /* Shows the next bytes of the expected message where they lie: *data is valid until consume. Returns
   * how many, a multiple of `grain` unless they are the message's last ones, so that elements are whole;
   * 0 if nothing is there now; TT_LINK_BROKEN or TT_LINK_MISMATCH. A repeated call shows the same bytes,
   * possibly more. *data may have any alignment. */
  ssize_t (*peek)(struct tt_link *link, const void **data, size_t grain);

  /* Releases the first `len` bytes that peek showed: whole grains (grain is 1, 2, 4, 8 or 16), or all. Returns 0, or
   * TT_LINK_BROKEN: the sender gave up meanwhile, and the bytes shown may be garbage. */
  ssize_t (*consume)(struct tt_link *link, size_t len);

  /* Reads up to `len` of the message's next bytes into `data`; as peek + copy + consume, but may avoid the copy.
   * Not mixed with peek inside one message. `data` may hold garbage until the last byte of the message is in. A caller
   * that offers room for the whole message in its first call leaves that room to the transport, because the peer may be
   * writing there, and offers the unfilled part again, until the message is in or the transport is halted. */
  ssize_t (*recv)(struct tt_link *link, void *data, size_t len);

  /* ---- whole messages at once: NULL if quick_bytes is 0 ----
   * They are used between messages, never inside one. On the wire a message is the same however it is sent or received.
   * A message that was begun with send_begin and of which nothing was sent is forgotten. */

  /* Sends a message of head->len <= quick_bytes and returns 1; 0: not possible now, and nothing has changed. */
  int (*put)(struct tt_link *link, const struct tt_head *head, const void *data);

  /* Returns the next message if all of it is there in one piece, `len` bytes long and with this word: valid until take.
   * NULL: nothing has changed; call again, or receive the message piece by piece, which also reports errors. */
  const void *(*look)(struct tt_link *link, uint64_t word, size_t len);

  /* Releases the message that look has shown. */
  void (*take)(struct tt_link *link);

  /* Returns a descriptor that becomes readable (or, if the last send took less than offered, writable) when the link
   * can go on from now; *events gets EPOLLIN | EPOLLOUT. Other links may share it, and it may become readable without
   * cause. -1 if there is none and the waiter must poll (*events 0), or if the link may go on already (*events
   * not 0). */
  int (*descriptor)(struct tt_link *link, uint32_t *events);
};

/* The input of a transport. It and everything that it points to live as long as the transport. */
struct tt_transport_spec {
  int nranks, rank;
  int lanes;                          /* 1 .. TT_MAX_LINKS */
  int patient_lanes;                  /* the last so many: open waits there for the peer as long as it takes */
  const struct tt_settings *settings;
  const struct tt_credentials *credentials;
  struct tt_listener *ip_listener;    /* NULL if there is none */
  struct tt_listener *local_listener;
  const uint64_t *hosts;              /* host id of each rank */
  const int32_t *pids;                /* of each rank, for pointers within one process */
  int oversubscribed;                        /* the machine's ranks are more than its cores */
};

/* Whether open may wait for the peer without a limit. */
static inline int tt_lane_is_patient(const struct tt_transport_spec *spec, int lane)
{
  return lane >= spec->lanes - spec->patient_lanes;
}

/* Memory that calls will use often. */
struct tt_registered {
  void *data;
  size_t len;
  int fd;          /* of a dma-buf, if only devices can reach the memory; -1: host memory */
  uint64_t offset; /* of data in the dma-buf */
};

struct tt_transport_ops {
  /* ---- facts: all differences between transports that the rest of the library knows ---- */
  const char *name;        /* for TUTTI_TRANSPORTS, profiles and logs */
  uint32_t block_bytes;    /* default of the longest block between ranks that it joins: 1 KiB .. 1 GiB */
  int is_same_host;        /* it joins only ranks of one host */
  int is_idle_on_one_host; /* not opened if all ranks are on one host and a transport with is_same_host comes first */
  int ends_links;          /* a link breaks when the peer's end is destroyed, after all that was sent has come */
  int uses_interface;      /* its links go over the interface of TUTTI_SOCKET_IFNAME, and cost what that costs */

  /* ---- functions ---- */

  /* NULL if this process can use the transport, else the reason and the remedy; for `tutti info` and the log. */
  const char *(*unusable)(const struct tt_settings *settings, char *why, size_t size);

  /* Makes this rank's end and writes to `peer_info` how peers reach it, at most
   * TT_TRANSPORT_PEER_INFO_BYTES; the rest of the peer info is zero. spec->hosts and pids are not known yet. */
  tuttiResult_t (*create)(struct tt_transport **transport, const struct tt_transport_spec *spec,
                          void *peer_info);

  /* All peer infos are there: `peer_infos` holds nranks peer infos, `stride` bytes apart, and lives as long as the
   * transport; spec->hosts and pids are known from here on. */
  tuttiResult_t (*connect)(struct tt_transport *transport, const void *peer_infos, size_t stride);

  /* True if `peer` can be reached; both sides must answer alike. After connect. A peer info of zeros means that the
   * rank does not have this transport. */
  int (*reaches)(const struct tt_transport *transport, int peer);

  /* Opens the link to `peer` on `lane`; resumable: tuttiInProgress until done, tuttiSuccess with *link.
   * Both sides open it, at any time, in any order, and it may be in progress until both do. Opening again gives the
   * same link. Data sent on an open link arrives even if the sender's transport is destroyed in good order after
   * that. tuttiSuccess with *link NULL: both sides have agreed that this transport has no link between them on this
   * lane; tt_last_sentence() says why, and another transport may have one. Errors: tuttiRemoteError,
   * tuttiSystemError. The transport frees its links. */
  tuttiResult_t (*open)(struct tt_transport *transport, int peer, int lane, struct tt_link **link);

  /* Does what this rank can for a link that nobody waits for yet, so that open has less to do; resumable likewise, at
   * any intervals, as no deadline runs. tuttiSuccess: all is done that needs no call of the peer's. NULL: there is
   * nothing to do before open. Errors: tuttiRemoteError, tuttiSystemError; open may be called all the same. */
  tuttiResult_t (*prepare)(struct tt_transport *transport, int peer, int lane);

  /* Descriptors in use, for the printed budget. */
  int (*descriptors)(const struct tt_transport *transport);

  /* Bytes of memory that the transport holds for its links; its records of them do not count. */
  size_t (*held)(const struct tt_transport *transport);

  /* One line about the path to `peer` for the log at INFO, e.g. "tcp eth0 192.0.2.1:4711 -> 192.0.2.2:4712". */
  const char *(*path)(const struct tt_transport *transport, int peer, char *text, size_t size);

  /* Registers memory with the device that moves bytes, so that it is not copied; deregister_memory ends that, destroy
   * at the latest. The memory stays until then, and no call uses it when it is deregistered. *handle may be NULL, and
   * is for deregister_memory alone. Both functions NULL: there is nothing to do, any memory is as good. Errors:
   * tuttiSystemError. */
  tuttiResult_t (*register_memory)(struct tt_transport *transport, const struct tt_registered *memory, void **handle);
  void (*deregister_memory)(struct tt_transport *transport, void *handle);

  /* This rank's calls have failed: gives up everything under way, for good. When it returns, no peer writes memory of
   * this rank's callers, and no peer's call can succeed with bytes that were offered and not taken, so that they may
   * be changed. The links are of no use from then on. NULL: nothing to do. destroy does it too. */
  void (*halt)(struct tt_transport *transport);

  /* Frees everything, whatever is under way. It waits for no program: a device that still has data of a link in good
   * order is waited for, no longer than TUTTI_UNREACHABLE_MS, and not after halt. Half-built and NULL are allowed. */
  void (*destroy)(struct tt_transport *transport);
};

/* Every transport's struct begins with this one. */
struct tt_transport {
  const struct tt_transport_ops *ops;
};

/* The rows of tt_transports. No file outside this folder names one (tests/lint/transports). */
extern const struct tt_transport_ops tt_transport_self;
extern const struct tt_transport_ops tt_transport_shm;
extern const struct tt_transport_ops tt_transport_tcp;
extern const struct tt_transport_ops tt_transport_verbs;

/* All transports, ended by NULL: first that of a rank to itself, which is always used, then those that TUTTI_TRANSPORTS
 * may name. */
extern const struct tt_transport_ops *const tt_transports[];

/* Chooses tt_transports[0] and then the transports that `list` names, "NAME,NAME,..." as in TUTTI_TRANSPORTS, in its
 * order; *n of them, at most `most`. Errors: tuttiInvalidArgument: an unknown name, one given twice, or too many. */
tuttiResult_t tt_transports_choose(const struct tt_transport_ops **chosen, int *n, int most, const char *list);

/* Decorators: wrap a connected transport, which they own from then on. Links of the result behave as the inner
 * ones. trace writes a line per message begun and ended to `file`; fault follows `rules`
 * (TUTTI_FAULT, see fault.c). On error the inner transport is still the caller's. */
tuttiResult_t tt_trace_wrap(struct tt_transport **out, struct tt_transport *inner,
                            const struct tt_transport_spec *spec, const char *file);
tuttiResult_t tt_fault_wrap(struct tt_transport **out, struct tt_transport *inner,
                            const struct tt_transport_spec *spec, const char *rules);

#endif
