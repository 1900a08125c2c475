/* SPDX-License-Identifier: BSD-3-Clause */
/* What is known while a communicator is being created. Private to create.c and child.c. */
#ifndef TT_COMM_CREATION_H
#define TT_COMM_CREATION_H

#include "bootstrap/bootstrap.h"
#include "comm/comm.h"

/* What every rank says last; rank 0's table counts. */
struct agreed {
  struct tt_table table;
  uint64_t arrangement; /* a hash: topology files may differ */
  uint64_t profile;     /* a hash of the file's name */
};

enum stage { SPLITTING, MEETING, CARDING, WATCHING, AGREEING };

struct tt_creation {
  enum stage stage;
  struct tt_id id;
  uint64_t agreement; /* what must be the same beside the settings */
  struct tt_rendezvous *rendezvous;
  struct member_card *members;
  struct agreed *agreed;
  uint64_t deadline_ns, began_ns;
  const struct tt_transport_ops *wanted[TT_COMM_TRANSPORTS]; /* self first */
  int nwanted;
  int nhosts;
  int32_t cores; /* that the ranks of a node may use, where they are fewest to a rank; on rank 0 */

  struct tuttiComm *parent; /* of a split, while SPLITTING */
  uint32_t number;          /* of the split among the parent's */
  struct tt_op *op;         /* the all-gather of the ranks' wishes, which it owns */
};

/* Goes on once the communicator's nranks, rank and creation->id are known. */
tuttiResult_t tt_creation_start(struct tuttiComm *comm);

/* ---- price.c ---- */
/* Makes the table, on rank 0. Errors: those of the profile and of tt_table_make. */
tuttiResult_t tt_creation_price(struct tuttiComm *comm, struct tt_table *table);

/* ---- child.c ---- */
tuttiResult_t tt_split_start(struct tuttiComm *comm, const struct tt_comm_spec *spec);
tuttiResult_t tt_split_poll(struct tuttiComm *comm);
tuttiResult_t tt_shrink_start(struct tuttiComm *comm, const struct tt_comm_spec *spec);

#endif
