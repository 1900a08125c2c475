/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of a communicator while it is being created. For the files of comm that create it. */
#ifndef TT_COMM_CREATION_PRIVATE_H
#define TT_COMM_CREATION_PRIVATE_H

#include "bootstrap/bootstrap.h"
#include "comm/private.h"

struct transport_info {
  uint8_t usable;
  struct tt_correction known[TT_LINK_KINDS]; /* the corrections in this rank's cache */
  uint8_t pad[5];
  uint8_t peer_info[TT_TRANSPORT_PEER_INFO_BYTES]; /* as in transport.h */
};

/* The contribution of a rank to the second round. Every rank gets those of all, so only the wanted transports are sent,
 * which are the same on all ranks. */
struct rank_info {
  uint64_t nearness;             /* a hash: topology files may differ */
  uint64_t profile;              /* a hash of the file's name */
  uint8_t corrects;              /* on rank 0: measured pairs correct its prices */
  uint8_t may_measure;           /* it has a core for itself, and nothing stands between it and its links */
  uint8_t pad[6];
  struct transport_info transports[TT_COMM_TRANSPORTS]; /* in the order of the wanted list */
};

static inline size_t tt_rank_info_bytes(int nwanted)
{
  return offsetof(struct rank_info, transports) + (size_t)nwanted * sizeof(struct transport_info);
}

/* The results of the pairs' leaders, if anything had to be measured. */
struct finding {
  struct tt_correction of[TT_LINK_KINDS];
};

/* The first neighbours on the wire with this kind of link between them. The same on all ranks. */
struct pair {
  int32_t ranks[2];  /* the first one leads; equal: there is none */
  int transport;     /* the transport that joins them, as an index into the wanted ones */
  int is_measured;   /* measured at this start-up, because its times were not known */
};

enum stage { GATHERING, MEETING, EXCHANGING, WATCHING, MEASURING, FINDING, AGREEING };

/* A try to shrink a communicator. */
struct tt_attempt {
  uint64_t set, number; /* the set of ranks left out; number of this try among those with the same set, 0: no memory */
  uint64_t key;         /* the key of the try's start-up, the same on all members */
};

/* More than 25 fields: each stage leaves here what the next ones need, and a child has some of its own. */
struct tt_creation {
  enum stage stage;
  struct tt_id id;
  struct tt_credentials *admits; /* of a child's root while it is opened: the credentials of each member */
  uint64_t used; /* the use of the id (tt_id_use); 0: a child has none */
  struct tt_rendezvous *rendezvous;
  struct member_info *members;
  struct rank_info *rank_info;   /* this rank's */
  struct finding *findings;
  uint64_t deadline_ns, began_ns;
  uint64_t lost_ns; /* time at which another rank was found lost (comm->creation_error says how); 0: none is */
  const struct tt_transport_ops *wanted[TT_COMM_TRANSPORTS]; /* tt_transports_choose */
  int nwanted;
  int is_named; /* 1: the user has named transports; the log then warns of a named one that cannot be used */
  int kept[TT_COMM_TRANSPORTS]; /* for each of comm->transports: its index in wanted */
  int nhosts;
  int32_t cores; /* cores for the ranks of a node, on the node with fewest cores per rank; on rank 0 */
  struct pair pairs[TT_LINK_KINDS];
  struct measuring *measuring; /* pair.c */
  int is_child; /* 1: it has the pairs' corrections from its parent */
  int is_second; /* as in struct tt_comm_spec */

  struct tuttiComm *parent;  /* of a child; held */
  int32_t *ranks;            /* the child's members, as ranks of the parent; room for all */
  struct tt_startup startup; /* this start-up, for the parent's watch */
  struct tt_attempt try;     /* of a shrink */
  uint64_t words_ns;         /* time at which the root reported the failure of the start-up; 0: it has not */
  int is_known;              /* 1: all members know that it has failed */
  struct tt_op *op;          /* the all-gather of a split or a grow, which it owns */
};

/* Goes on once the communicator's nranks, rank and creation->id are known. */
tuttiResult_t tt_creation_start(struct tuttiComm *comm);

/* The contribution of rank `rank` to the second round. */
const struct rank_info *tt_creation_info(const struct tuttiComm *comm, int rank);

/* ---- config.c ---- */
/* Takes over the values of config, unless the environment overrides them; a child has its parent's settings already.
 * Errors: tuttiInvalidArgument. */
tuttiResult_t tt_config_apply(struct tuttiComm *comm, const tuttiConfig_t *config, int is_child);

/* 1: the transport would be usable but for TUTTI_AUTH, and nobody was warned of that so far: rank 0, once a process. */
int tt_config_costs(const struct tuttiComm *comm, const struct tt_transport_ops *ops);

/* Makes the place where this rank meets its GPU, if it has one, and holds the progress thread, which carries out what
 * the GPU waits for. A communicator that a fusion makes for itself has no streams. Errors: as tt_slots_make,
 * tt_progress_hold. */
tuttiResult_t tt_slots_apply(struct tuttiComm *comm, const struct tt_comm_spec *spec);

/* ---- correct.c: the times of pairs, known or to be measured ---- */
/* Fills this rank's part of the second round. */
void tt_correct_say(struct tuttiComm *comm, struct rank_info *info);
/* Finds the pairs, once links can be opened. 1: some must be measured, and all ranks meet once more. */
int tt_correct_start(struct tuttiComm *comm);
/* Sends the results to the other ranks, once all pairs of this rank are measured. */
tuttiResult_t tt_correct_tell(struct tuttiComm *comm);
/* Takes over the results of all ranks. */
void tt_correct_finish(struct tuttiComm *comm);

/* ---- pair.c ---- */
/* Measures the pairs of which this rank is one, in the order of their kinds: tuttiInProgress until they are done. Never
 * waits, but takes the core for up to a millisecond while the partner answers. Errors: the communicator's failure;
 * tuttiRemoteError: the partner does not answer before the creation's deadline; tuttiSystemError. */
tuttiResult_t tt_pair_poll(struct tuttiComm *comm);
void tt_measuring_destroy(struct measuring *measuring); /* NULL is allowed */

/* ---- agree.c ---- */
/* A hash of the facts on which all ranks must agree: order, groups, and the kinds of link between neighbours, by which
 * pairs are found. */
uint64_t tt_nearness_hash(const struct tt_topology *topology, const struct tt_arrangement *arrangement);
/* Checks that all ranks see the same topology. Errors: tuttiInvalidUsage: they do not. */
tuttiResult_t tt_rank_infos_compare(const struct tuttiComm *comm);
/* The last round: rank 0 makes the decision table and sends it to all. */
tuttiResult_t tt_agree_start(struct tuttiComm *comm);
tuttiResult_t tt_agree_finish(struct tuttiComm *comm);

/* ---- price.c ---- */
/* Makes the table, on rank 0. Errors: those of the profile and of tt_table_make. */
tuttiResult_t tt_creation_price(struct tuttiComm *comm, struct tt_table *table);

/* ---- child.c ---- */
enum tt_child_kind { TT_SPLIT = 1, TT_SHRINK = 2, TT_GROW = 3 };

/* The input of a child's key: only facts that all of its ranks know alike. */
struct tt_child_context {
  uint32_t how;    /* enum tt_child_kind */
  int32_t color;   /* of a split */
  uint64_t number; /* of the all-gather of a split or a grow; of the try to shrink to these ranks */
  uint64_t set;    /* of a shrink: a hash of the ranks that are left out, in any order */
};

tuttiResult_t tt_split_start(struct tuttiComm *comm, const struct tt_comm_spec *spec);
/* Appends an all-gather of `bytes` of each rank to the parent's queue, for the form of a split or a grow; and moves it,
 * and goes on with what it has brought. */
tuttiResult_t tt_child_gather(struct tuttiComm *comm, uint64_t form, const void *mine, size_t bytes);
tuttiResult_t tt_child_poll(struct tuttiComm *comm);
/* Begins the watch of the parent over the start-up: its members are those of creation->ranks, `nmembers` of them, and
 * `context` is the same on all of them, and for nothing else. Errors: as tt_child_look. */
tuttiResult_t tt_child_watch(struct tuttiComm *comm, const struct tt_child_context *context, int nmembers);
tuttiResult_t tt_shrink_start(struct tuttiComm *comm, const struct tt_comm_spec *spec);
/* The reason, known to the parent's watch, why the child's start-up fails; tuttiSuccess: none. */
tuttiResult_t tt_child_look(struct tuttiComm *comm);
/* Tells the other members that this rank gives up, with the thread's last sentence, unless they know; and that the end
 * of its process, should it follow, has this cause. */
void tt_child_tell(struct tuttiComm *comm, tuttiResult_t code);
/* Does the same if there is no memory for a communicator. */
void tt_child_no_memory(const struct tt_comm_spec *spec, const struct tt_attempt *try);
/* Numbers a try to shrink, which begins now. The key is right also without memory. */
void tt_shrink_number(const struct tt_comm_spec *spec, struct tt_attempt *try);

/* ---- grow.c ---- */
/* Goes on with nranks and rank known, at this id. */
tuttiResult_t tt_creation_join(struct tuttiComm *comm, const tuttiUniqueId *id);
tuttiResult_t tt_grow_start(struct tuttiComm *comm, const struct tt_comm_spec *spec);
/* Goes on with what the ranks of the parent have said. */
tuttiResult_t tt_grow_take(struct tuttiComm *comm, const struct tt_op *op);

#endif
