/* SPDX-License-Identifier: BSD-3-Clause */
/* Creation, as a state machine that never blocks. Three rounds of the rendezvous:
 *   1. the places of the ranks (pid, host, listeners) and the root's secret give hosts and the communicator's own key;
 *   2. the transports' peer infos, once each rank has made its ends, and the link costs that it knows: then transports
 *      connect;
 *   3. rank 0's decision table, once every rank has its watch, so that no rank uses what a peer lacks.
 * If no rank knows the costs of a kind of link, a pair of ranks measures them before the last round (correct.c), which
 * takes one more. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "cuda/cuda.h"
#include "reduce/reduce.h"

#define DESCRIPTORS_OF_RANK 8 /* both ends of its connections in start-up, its memory, and some on their way */
#define WORDS_NS 500000000u /* for what a rank that has gone may have said before */

struct member_info {
  int32_t pid, has_slots; /* has_slots: 1 + the number of the GPU that it meets; 0: none */
  struct tt_locality locality;
  uint8_t core_mask[TT_CORE_MASK_BYTES];
  uint64_t start, pid_namespace, host, kernel;
  char host_name[TT_HOST_NAME_BYTES];
  uint8_t listener[TT_ADDRESS_PACKED_BYTES]; /* that for IP; without one the local listener */
  char local[32];                      /* abstract name of the local listener, without the leading NUL */
  uint8_t public[TT_KEY_BYTES];        /* of the rank's X25519 keys in this communicator (child.c) */
};

/* The id of a start-up of which nobody has heard can be used again, and a fixed address after any that has failed. */
static void id_give_up(struct tt_creation *creation)
{
  int is_left = !creation->rendezvous || (creation->id.flags & TT_ID_FIXED);
  tt_id_used(creation->used, is_left ? TT_USE_NONE : TT_USE_FAILED);
  creation->used = 0;
}

static void parent_leave(struct tt_creation *creation)
{
  if (creation->op) tt_op_abandon(creation->op);
  if (creation->parent) tt_watch_startup_end(creation->parent->parts.watch, &creation->startup);
  if (creation->parent) tt_parent_release(creation->parent);
  creation->op = NULL;
  creation->parent = NULL;
}

void tt_creation_destroy(struct tt_creation *creation)
{
  if (!creation) return;
  id_give_up(creation); /* aborted */
  tt_rendezvous_destroy(creation->rendezvous);
  tt_free(creation->members);
  tt_free(creation->rank_info);
  tt_free(creation->findings);
  tt_measuring_destroy(creation->measuring);
  parent_leave(creation);
  tt_free(creation->ranks);
  tt_wipe(&creation->id, sizeof creation->id);
  tt_free(creation);
}

/* ---- round 1: who is there ---- */

static void listeners_open(struct tuttiComm *comm)
{
  struct tt_address address;
  if (tt_interface_choose(&comm->facts.settings, &address, comm->facts.interface) != tuttiSuccess || !address.len ||
      tt_listener_open(&comm->parts.ip_listener, &address) != tuttiSuccess)
    tt_log(TT_LOG_INFO, "no IP listener: ranks on other hosts and tcp cannot be reached");
}

static void member_fill(struct tuttiComm *comm, struct member_info *info)
{
  *info = (struct member_info){.pid = getpid()};
  info->has_slots = comm->parts.slots ? 1 + comm->facts.device : 0;
  tt_host_core_mask(info->core_mask);
  if (tt_topo_here(&info->locality) != tuttiSuccess) info->locality = (struct tt_locality){-1, -1};
  info->start = tt_process_start(getpid());
  info->pid_namespace = tt_pid_namespace();
  info->host = tt_host_id(comm->facts.settings.host_id);
  info->kernel = tt_kernel_id();
  tt_host_name(info->host_name);
  const struct tt_listener *local_listener = comm->parts.local_listener, *ip_listener = comm->parts.ip_listener;
  tt_address_pack(tt_listener_address(ip_listener ? ip_listener : local_listener), info->listener);
  const struct tt_address *local = tt_listener_address(local_listener);
  size_t len = local->len - offsetof(struct sockaddr_un, sun_path) - 1;
  memcpy(info->local, local->local.sun_path + 1, len < sizeof info->local ? len : 0);
  tt_exchange_make(comm->parts.secret, info->public);
}

/* ---- which transports ---- */

/* Devices for other hosts are not opened where none is needed. The same on all ranks. */
static int is_idle(const struct tt_creation *creation, int t)
{
  int comes_after = 0;
  for (int s = 1; s < t; s++) comes_after |= creation->wanted[s]->is_same_host;
  return comes_after && creation->nhosts == 1 && creation->wanted[t]->is_idle_on_one_host;
}

/* ---- start ---- */

static int tables_make(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct tt_comm_parts *parts = &comm->parts;
  struct tt_comm_queue *queue = &comm->queue;
  size_t n = (size_t)comm->facts.nranks;
  creation->members = tt_alloc(n, sizeof *creation->members);
  parts->hosts = tt_alloc(n, sizeof *parts->hosts);
  parts->pids = tt_alloc(n, sizeof *parts->pids);
  parts->listeners = tt_alloc(n, TT_ADDRESS_PACKED_BYTES);
  parts->publics = tt_alloc(n, TT_KEY_BYTES);
  queue->sent = tt_alloc(n, sizeof *queue->sent);
  queue->received = tt_alloc(n, sizeof *queue->received);
  creation->rank_info = tt_alloc(1, sizeof *creation->rank_info);
  parts->rank_infos = tt_alloc(n, tt_rank_info_bytes(creation->nwanted));
  return creation->members && creation->rank_info && parts->hosts && parts->pids && parts->listeners &&
         parts->publics && queue->sent && queue->received && parts->rank_infos;
}

tuttiResult_t tt_creation_start(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  if (!tables_make(comm))
    return tt_fail(tuttiSystemError, "out of memory for a communicator of %d ranks", comm->facts.nranks);
  tt_descriptors_want(DESCRIPTORS_OF_RANK * (size_t)comm->facts.nranks); /* they may all be threads of this process */
  listeners_open(comm);
  struct tt_address local = {.len = 0};
  tuttiResult_t result = tt_listener_open(&comm->parts.local_listener, &local);
  if (result != tuttiSuccess) return result;

  uint64_t limit_ns = tt_start_limit(&creation->id, &comm->facts.settings);
  creation->deadline_ns = tt_now_ns() + limit_ns;
  struct tt_rendezvous_spec rendezvous = {.id = &creation->id, .members = creation->admits,
                                          .nranks = comm->facts.nranks,
                                          .rank = comm->facts.rank,
                                          .agreement = tt_settings_wire_hash(&comm->facts.settings),
                                          .host = tt_host_id(comm->facts.settings.host_id),
                                          .limit_ns = limit_ns,
                                          .settings = &comm->facts.settings};
  result = tt_rendezvous_start(&creation->rendezvous, &rendezvous);
  if (result != tuttiSuccess) return result;
  struct member_info info;
  member_fill(comm, &info);
  creation->stage = MEETING;
  return tt_rendezvous_gather(creation->rendezvous, &info, sizeof info, creation->members);
}

static tuttiResult_t begin(struct tuttiComm *comm, const struct tt_comm_spec *spec)
{
  struct tt_creation *creation = comm->life.creation;
  creation->began_ns = tt_now_ns();
  tuttiResult_t result = tt_auth_init();
  if (result == tuttiSuccess) result = tt_reduce_choose(comm->facts.settings.kernels);
  if (result == tuttiSuccess) result = tt_cuda_join(&comm->facts.settings, &comm->life.joined_cuda);
  if (result == tuttiSuccess) result = tt_config_apply(comm, spec->config, spec->parent != NULL);
  if (result == tuttiSuccess) result = tt_slots_apply(comm, spec);
  if (result == tuttiSuccess && comm->facts.settings.fault_level > 1) result = tt_views_create(comm);
  if (result == tuttiSuccess)
    result = tt_transports_choose(creation->wanted, &creation->nwanted, TT_COMM_TRANSPORTS,
                                  comm->facts.settings.transports);
  if (result != tuttiSuccess) return result;
  if (spec->parent && !spec->grows) return spec->exclude ? tt_shrink_start(comm, spec) : tt_split_start(comm, spec);
  return spec->grows ? tt_grow_start(comm, spec) : tt_creation_join(comm, spec->id);
}

static tuttiResult_t creation_failed(struct tuttiComm *comm, tuttiResult_t code)
{
  struct tt_creation *creation = comm->life.creation;
  id_give_up(creation);
  snprintf(comm->life.creation_error, sizeof comm->life.creation_error, "%s", tt_last_sentence());
  comm->life.creation_code = code;
  if (creation->parent) tt_child_tell(comm, code); /* before its root can tell */
  if (creation->rendezvous) tt_rendezvous_fail(creation->rendezvous, code, comm->life.creation_error);
  /* A rank that has the table already has its communicator, and hears why this one is not there. */
  if (creation->stage == AGREEING && !comm->parts.views)
    tt_watch_fail_too(comm->parts.watch, code, -1, comm->life.creation_error);
  atomic_store_explicit(&comm->life.state, TT_COMM_NOT_CREATED, memory_order_release);
  parent_leave(creation);
  return tt_fail_quiet(code, comm->life.creation_error);
}

void tt_creation_quit(struct tuttiComm *comm)
{
  if (atomic_load(&comm->life.state) != TT_COMM_CREATING) return;
  const char *early = "its caller aborted a split or a grow of it", *late = "its caller aborted it in its start-up";
  creation_failed(comm, tt_fail_quiet(tuttiRemoteError, comm->life.creation->op ? early : late));
}

tuttiResult_t tt_comm_create(struct tuttiComm **out, const struct tt_comm_spec *spec)
{
  struct tuttiComm *comm = tt_alloc(1, sizeof *comm);
  struct tt_creation *creation = comm ? tt_alloc(1, sizeof *creation) : NULL;
  size_t most = spec->parent ? (size_t)spec->parent->facts.first_nranks : 0;
  int32_t *ranks = creation && most ? tt_alloc(most, sizeof *ranks) : NULL;
  struct tt_attempt try = {.set = 0};
  if (spec->exclude) tt_shrink_number(spec, &try);
  if (!creation || (most && !ranks)) {
    tt_free(creation);
    tt_free(comm);
    tuttiResult_t result = tt_fail(tuttiSystemError, "out of memory for a communicator of %d ranks",
                                   spec->parent ? spec->parent->facts.nranks : spec->nranks);
    tt_child_no_memory(spec, &try);
    return result;
  }
  int asked = tt_log_wants(TT_LOG_INFO) || !tt_log_wants(TT_LOG_WARN); /* the default, WARN, has no news to tell */
  if (spec->rank == 0 && asked) tt_log(TT_LOG_VERSION, "Tutti %d.%d.%d", TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
  comm->life.magic = TT_COMM_MAGIC;
  comm->facts.serial = atomic_fetch_add(&tt_process.communicators, 1);
  atomic_store(&comm->life.refs, 1);
  comm->facts.nranks = spec->nranks;
  comm->facts.rank = spec->rank;
  const struct tt_comm_facts *root = spec->parent && !spec->grows ? &spec->parent->facts : NULL;
  comm->facts.root_rank = root ? root->root_rank : spec->rank;
  comm->facts.root_nranks = root ? root->root_nranks : spec->nranks;
  comm->facts.device = spec->device;
  comm->facts.is_fusions = spec->is_second;
  comm->facts.settings = *spec->settings;
  comm->life.creation = creation;
  creation->is_second = spec->is_second;
  creation->ranks = ranks;
  creation->try = try;
  creation->startup.key = try.key;
  creation->parent = spec->parent;
  if (spec->parent) tt_parent_hold(spec->parent);
  *out = comm;
  tuttiResult_t result = begin(comm, spec);
  return result == tuttiSuccess ? result : creation_failed(comm, result);
}

/* ---- after round 1 ---- */

/* Containers of one machine are hosts of their own, but compete for its cores. */
static int same_cores(const struct member_info *a, const struct member_info *b)
{
  return a->kernel && b->kernel ? a->kernel == b->kernel : a->host == b->host;
}

static void hosts_take(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  const struct member_info *mine = &creation->members[comm->facts.rank];
  uint8_t mask[TT_CORE_MASK_BYTES] = {0}; /* cores that the ranks of this machine may use, together */
  int beside = 0, cores = 0;
  creation->nhosts = 0;
  for (int r = 0; r < comm->facts.nranks; r++) {
    const struct member_info *info = &creation->members[r];
    comm->parts.hosts[r] = info->host;
    comm->parts.pids[r] = info->pid;
    memcpy(comm->parts.listeners + (size_t)r * TT_ADDRESS_PACKED_BYTES, info->listener, TT_ADDRESS_PACKED_BYTES);
    memcpy(comm->parts.publics + (size_t)r * TT_KEY_BYTES, info->public, TT_KEY_BYTES);
    int is_beside = same_cores(info, mine);
    beside += is_beside;
    if (info->has_slots) comm->facts.piece_bytes = comm->facts.slot_bytes;
    for (int b = 0; b < TT_CORE_MASK_BYTES && is_beside; b++) mask[b] |= info->core_mask[b];
    int first = 0;
    while (creation->members[first].host != info->host) first++;
    creation->nhosts += first == r;
  }
  for (int b = 0; b < TT_CORE_MASK_BYTES; b++) cores += __builtin_popcount(mask[b]);
  comm->facts.oversubscribed = beside > cores ? beside / (cores ? cores : 1) : 0;
}

/* How many cores the ranks of a node may use, where they are fewest to a rank. */
static void cores_count(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  int64_t least = 0, its_ranks = 1;
  for (int first = 0; first < comm->facts.nranks; first++) {
    uint8_t mask[TT_CORE_MASK_BYTES] = {0};
    int64_t ranks = 0, cores = 0;
    int is_first = 1;
    for (int r = 0; r < first && is_first; r++)
      is_first = !same_cores(&creation->members[r], &creation->members[first]);
    for (int r = first; r < comm->facts.nranks && is_first; r++) {
      const struct member_info *info = &creation->members[r];
      if (!same_cores(info, &creation->members[first])) continue;
      ranks++;
      for (int b = 0; b < TT_CORE_MASK_BYTES; b++) mask[b] |= info->core_mask[b];
    }
    if (!is_first) continue;
    for (int b = 0; b < TT_CORE_MASK_BYTES; b++) cores += __builtin_popcount(mask[b]);
    if (least && cores * its_ranks >= least * ranks) continue;
    least = cores;
    its_ranks = ranks;
  }
  creation->cores = (int32_t)least;
}

/* Where the ranks are, and in which order they stand on the wire. */
static tuttiResult_t arrange(struct tuttiComm *comm)
{
  struct tt_locality *localities = tt_alloc((size_t)comm->facts.nranks, sizeof *localities);
  if (!localities) return tt_fail(tuttiSystemError, "out of memory for the topology of %d ranks", comm->facts.nranks);
  for (int r = 0; r < comm->facts.nranks; r++) localities[r] = comm->life.creation->members[r].locality;
  tuttiResult_t result = tuttiSuccess;
  if (!comm->facts.settings.topology[0])
    result = tt_topology_make(&comm->parts.topology, comm->facts.nranks, comm->parts.hosts, localities);
  else if (!comm->parts.topology.nranks) /* a child has its part of the parent's */
    result = tt_topology_load(&comm->parts.topology, comm->facts.settings.topology, comm->facts.nranks);
  tt_free(localities);
  if (result == tuttiSuccess)
    result = tt_topology_arrange(&comm->parts.arrangement, &comm->parts.topology, comm->facts.settings.group_size);
  if (result != tuttiSuccess) return result;
  while (comm->parts.arrangement.order[comm->parts.position] != comm->facts.rank) comm->parts.position++;
  return tuttiSuccess;
}

/* Keys of this communicator only. They come from what the root has told its ranks, so that who knows the id's key, or
 * that of a parent, does not know them. */
static void credentials_make(struct tuttiComm *comm)
{
  uint8_t job[TT_KEY_BYTES], secret[TT_KEY_BYTES];
  tt_rendezvous_secret(comm->life.creation->rendezvous, secret);
  tt_key_derive(comm->parts.credentials.key, secret, "tutti-comm", NULL, 0);
  tt_key_derive(job, comm->parts.credentials.key, "tutti-job", NULL, 0);
  tt_wipe(secret, sizeof secret);
  memcpy(comm->parts.credentials.job, job, sizeof comm->parts.credentials.job);
  comm->parts.credentials.epoch = 0;
}

static tuttiResult_t transports_create(struct tuttiComm *comm, struct transport_info *infos)
{
  struct tt_creation *creation = comm->life.creation;
  comm->parts.spec = (struct tt_transport_spec){.nranks = comm->facts.nranks,
                                          .oversubscribed = comm->facts.oversubscribed,
                                          .rank = comm->facts.rank,
                                          .lanes = (int)comm->facts.settings.lanes + 1,
                                          .patient_lanes = 1,
                                          .settings = &comm->facts.settings,
                                          .credentials = &comm->parts.credentials,
                                          .ip_listener = comm->parts.ip_listener,
                                          .local_listener = comm->parts.local_listener,
                                          .hosts = comm->parts.hosts,
                                          .pids = comm->parts.pids};
  comm->parts.ntransports = creation->nwanted; /* those that are not made stay NULL */
  const char *lacking = NULL;
  char why[TT_SENTENCE_BYTES], lacks_why[TT_SENTENCE_BYTES] = "";
  int leads = comm->facts.nranks == 1; /* to others */
  for (int t = 0; t < creation->nwanted; t++) {
    if (is_idle(creation, t)) continue;
    const char *reason = creation->wanted[t]->unusable(&comm->facts.settings, why, sizeof why);
    struct tt_transport *made = NULL;
    if (reason) {
      tt_log(tt_config_costs(comm, creation->wanted[t]) ? TT_LOG_WARN : TT_LOG_INFO, "transport %s is not usable: %s",
             creation->wanted[t]->name, reason);
      lacking = creation->wanted[t]->name;
      snprintf(lacks_why, sizeof lacks_why, "%.*s", (int)sizeof lacks_why - 1, reason);
      continue;
    }
    leads |= t > 0;
    tuttiResult_t result = creation->wanted[t]->create(&made, &comm->parts.spec, infos[t].peer_info);
    if (result != tuttiSuccess) return result;
    infos[t].usable = 1;
    comm->parts.transports[t] = made;
  }
  if (leads || !lacking) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "transport %s cannot be used: %s. Take others (TUTTI_TRANSPORTS is \"%s\")",
                 lacking, lacks_why, comm->facts.settings.transports);
}

static tuttiResult_t after_meeting(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  hosts_take(comm);
  if (comm->facts.rank == 0) cores_count(comm);
  credentials_make(comm);
  tuttiResult_t result = tt_views_meet(comm);
  if (result == tuttiSuccess) result = arrange(comm);
  if (result == tuttiSuccess) result = transports_create(comm, creation->rank_info->transports);
  if (result != tuttiSuccess) return result;
  struct rank_info *mine = creation->rank_info;
  mine->nearness = tt_nearness_hash(&comm->parts.topology, &comm->parts.arrangement);
  mine->profile = tt_text_hash(0, comm->facts.settings.profile);
  tt_correct_say(comm, mine);
  creation->stage = EXCHANGING;
  size_t bytes = tt_rank_info_bytes(creation->nwanted);
  return tt_rendezvous_gather(creation->rendezvous, mine, bytes, comm->parts.rank_infos);
}

/* ---- after round 2 ---- */

/* A transport counts only if every rank has it: both ends of a pair must choose alike. That nobody has one that nobody
 * has named is no news. */
static int usable_everywhere(const struct tuttiComm *comm, int t)
{
  const struct tt_creation *creation = comm->life.creation;
  int have = 0, lacks = 0;
  for (int r = comm->facts.nranks - 1; r >= 0; r--) {
    int has = tt_creation_info(comm, r)->transports[t].usable == 1; /* nothing else counts, whatever was sent */
    have += has;
    if (!has) lacks = r;
  }
  if (have < comm->facts.nranks && !is_idle(creation, t) && (have || creation->is_named))
    tt_log(creation->is_second ? TT_LOG_INFO : TT_LOG_WARN,
           "transport %s is not used: rank %d cannot (TUTTI_DEBUG=INFO there says why)", creation->wanted[t]->name,
           lacks);
  return have == comm->facts.nranks;
}

static tuttiResult_t decorate(struct tuttiComm *comm, struct tt_transport **transport)
{
  const struct tt_settings *settings = &comm->facts.settings;
  tuttiResult_t result = tuttiSuccess;
  if (settings->fault[0]) result = tt_fault_wrap(transport, *transport, &comm->parts.spec, settings->fault);
  if (result == tuttiSuccess && settings->trace[0])
    result = tt_trace_wrap(transport, *transport, &comm->parts.spec, settings->trace);
  return result;
}

static tuttiResult_t transports_connect(struct tuttiComm *comm)
{
  int kept = 0;
  tuttiResult_t result = tuttiSuccess;
  for (int t = 0; t < comm->parts.ntransports; t++) {
    struct tt_transport *transport = comm->parts.transports[t];
    comm->parts.transports[t] = NULL;
    if (!usable_everywhere(comm, t)) {
      if (transport) transport->ops->destroy(transport);
      continue;
    }
    comm->parts.transports[kept] = transport;
    comm->life.creation->kept[kept] = t;
    const void *peer_infos = tt_creation_info(comm, 0)->transports[t].peer_info;
    size_t stride = tt_rank_info_bytes(comm->life.creation->nwanted);
    if (result == tuttiSuccess) result = transport->ops->connect(transport, peer_infos, stride);
    if (result == tuttiSuccess && t > 0) result = decorate(comm, &comm->parts.transports[kept]);
    kept++;
  }
  comm->parts.ntransports = kept;
  return result;
}

static void member_unpack(const struct tt_creation *creation, int rank, struct tt_member *member)
{
  const struct member_info *info = &creation->members[rank];
  *member = (struct tt_member){.pid = info->pid, .start = info->start, .pid_namespace = info->pid_namespace};
  memcpy(member->host_name, info->host_name, sizeof member->host_name);
  member->host_name[TT_HOST_NAME_BYTES - 1] = 0;
  while (creation->members[member->host_index].host != info->host) member->host_index++;
  if (creation->nhosts > 1) tt_address_unpack(&member->control, info->listener);
  size_t len = strnlen(info->local, sizeof info->local - 1);
  member->local.local.sun_family = AF_UNIX;
  memcpy(member->local.local.sun_path + 1, info->local, len);
  member->local.len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len);
}

static tuttiResult_t watch_start(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  if (creation->nhosts > 1 && !comm->parts.ip_listener)
    return tt_fail(tuttiInvalidUsage,
                   "the ranks are on %d hosts, but rank %d has no usable interface: set TUTTI_SOCKET_IFNAME to one "
                   "that is up and has an address",
                   creation->nhosts, comm->facts.rank);
  comm->facts.first_nranks = comm->facts.nranks;
  comm->facts.first_rank = comm->facts.rank;
  struct tt_member *members = tt_alloc((size_t)comm->facts.nranks, sizeof *members);
  if (!members) return tt_fail(tuttiSystemError, "out of memory for %d members", comm->facts.nranks);
  for (int r = 0; r < comm->facts.nranks; r++) member_unpack(creation, r, &members[r]);
  struct tt_watch_spec spec = {.nranks = comm->facts.nranks, .rank = comm->facts.rank, .members = members,
                               .credentials = &comm->parts.credentials,
                               .settings = &comm->facts.settings,
                               .local_listener = comm->parts.local_listener,
                               .label = comm->facts.label,
                               .is_second = creation->is_second || tt_comm_is_inner(&comm->facts),
                               .has_gpu = comm->parts.slots != NULL,
                               .ip_listener = creation->nhosts > 1 ? comm->parts.ip_listener : NULL,
                               .timeout_ms = comm->facts.settings.timeout_ms,
                               .deadline_ns = creation->deadline_ns};
  tuttiResult_t result = tt_watch_create(&comm->parts.watch, &spec);
  tt_free(members);
  return result;
}

static tuttiResult_t after_exchange(struct tuttiComm *comm)
{
  tuttiResult_t result = tt_rank_infos_compare(comm);
  if (result == tuttiSuccess) result = tt_observe_start(comm);
  if (result == tuttiSuccess) result = transports_connect(comm);
  if (result == tuttiSuccess) result = watch_start(comm);
  comm->life.creation->stage = WATCHING;
  return result;
}

/* ---- links can be opened ---- */

/* Meets the ranks that this process has on this GPU. */
static tuttiResult_t neighbours_meet(struct tuttiComm *comm)
{
  const struct member_info *members = comm->life.creation->members, *mine = &members[comm->facts.rank];
  int ranks = 0, place = 0;
  for (int r = 0; r < comm->facts.nranks && mine->has_slots; r++) {
    const struct member_info *info = &members[r];
    int is_beside = info->has_slots == mine->has_slots && info->pid == mine->pid && info->start == mine->start &&
                    info->host == mine->host && info->pid_namespace == mine->pid_namespace;
    ranks += is_beside;
    place += is_beside && r < comm->facts.rank;
  }
  return tt_meeting_join(comm, ranks, place);
}

static tuttiResult_t after_watching(struct tuttiComm *comm)
{
  struct tt_exec_spec spec = {.nranks = comm->facts.nranks,
                              .rank = comm->facts.rank,
                              .lanes = (int)comm->facts.settings.lanes,
                              .transports = comm->parts.transports,
                              .ntransports = comm->parts.ntransports,
                              .watch = comm->parts.watch,
                              .piece_bytes = comm->facts.piece_bytes};
  tuttiResult_t result = tt_exec_create(&comm->parts.exec, &spec);
  if (result == tuttiSuccess) result = tt_run_create(&comm->parts.run, comm->parts.exec);
  if (result == tuttiSuccess) result = neighbours_meet(comm);
  if (result != tuttiSuccess) return result;
  if (!tt_correct_start(comm)) return tt_agree_start(comm);
  comm->life.creation->stage = MEASURING;
  return tuttiSuccess;
}

static tuttiResult_t after_finding(struct tuttiComm *comm)
{
  tt_correct_finish(comm);
  return tt_agree_start(comm);
}

/* Between rounds. The watch or a link may know of a lost rank before its own words come: they are waited for. */
static tuttiResult_t prepare(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  if (!creation->lost_ns) {
    tuttiResult_t result = creation->stage == WATCHING ? tt_watch_poll(comm->parts.watch) : tt_pair_poll(comm);
    if (result != tuttiRemoteError || creation->parent) return result;
    snprintf(comm->life.creation_error, sizeof comm->life.creation_error, "%s", tt_last_sentence());
    creation->lost_ns = tt_now_ns();
  }
  if (tt_now_ns() - creation->lost_ns < WORDS_NS) return tuttiInProgress;
  return tt_fail_quiet(tuttiRemoteError, comm->life.creation_error);
}

/* `result` is what the start-up says. The parent's watch may know more, in the same words for all ranks: it is given
 * time for that. Slower ranks find the words, not only that this one has left. */
static tuttiResult_t covered(struct tuttiComm *comm, tuttiResult_t result)
{
  struct tt_creation *creation = comm->life.creation;
  if (!creation->parent || result == tuttiSuccess) return result;
  int is_error = result != tuttiInProgress && result != tuttiRemoteError;
  if (is_error && !tt_rendezvous_fail(creation->rendezvous, result, ""))
    return tt_rendezvous_poll(creation->rendezvous); /* its own: the root does not know of it */
  if (result != tuttiInProgress && !creation->words_ns) {
    creation->words_ns = tt_now_ns();
    creation->startup.next_ns = 0; /* it may have been told by one that had heard of it there: look at once */
    snprintf(comm->life.creation_error, sizeof comm->life.creation_error, "%s", tt_last_sentence());
  }
  tuttiResult_t known = tt_child_look(comm);
  if (known != tuttiSuccess || result == tuttiInProgress) return known == tuttiSuccess ? result : known;
  int is_all = comm->facts.rank == 0 && result != tuttiRemoteError; /* rank 0 reports it to the others */
  if (!is_all && tt_now_ns() - creation->words_ns < WORDS_NS) return tuttiInProgress;
  creation->is_known = comm->facts.rank != 0;
  if (comm->facts.rank)
    tt_watch_notice(creation->parent->parts.watch, creation->startup.key, result, comm->life.creation_error);
  return tt_fail_quiet(result, comm->life.creation_error);
}

/* One stage on. */
static tuttiResult_t advance(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  if (creation->stage == GATHERING) return tt_child_poll(comm);
  tuttiResult_t result = tt_rendezvous_poll(creation->rendezvous);
  if (creation->stage == WATCHING || creation->stage == MEASURING) { /* between rounds */
    if (result == tuttiSuccess || result == tuttiInProgress) {
      result = prepare(comm);
      if (result != tuttiSuccess && result != tuttiInProgress && result != tuttiRemoteError) return result;
    }
  }
  result = covered(comm, result);
  if (result == tuttiInProgress && creation->stage == MEETING && !comm->facts.rank)
    tt_profile_shipped(); /* for its table: it is read, which takes 2 ms, while the others come */
  if (result != tuttiSuccess) return result;
  switch (creation->stage) {
  case MEETING: return after_meeting(comm);
  case EXCHANGING: return after_exchange(comm);
  case WATCHING: return after_watching(comm);
  case MEASURING: return tt_correct_tell(comm);
  case FINDING: return after_finding(comm);
  default: return tt_agree_finish(comm);
  }
}

tuttiResult_t tt_comm_create_poll(struct tuttiComm *comm)
{
  if (atomic_load(&comm->life.state) != TT_COMM_CREATING) return tt_comm_health(comm);
  tuttiResult_t result = advance(comm);
  if (atomic_load(&comm->life.state) == TT_COMM_READY || comm->life.is_none) return tuttiSuccess;
  if (result == tuttiSuccess || result == tuttiInProgress) return tuttiInProgress;
  return creation_failed(comm, result);
}
