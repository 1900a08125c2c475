/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the user: allocated from the heap, and registered with all transports that have a use for it. */
#include <unistd.h>

#include "comm/private.h"
#include "cuda/cuda.h"
#include "memory/memory.h"

struct tt_registration {
  struct tt_registration *next;
  void *handles[TT_COMM_TRANSPORTS]; /* one a transport */
};

tuttiResult_t tt_user_alloc(void **memory, size_t size)
{
  return tt_heap_alloc(memory, size);
}

tuttiResult_t tt_user_free(void *memory)
{
  return tt_heap_free(memory);
}

void tt_comm_own(struct tuttiComm *comm)
{
  while (atomic_exchange_explicit(&comm->queue.owner, 1, memory_order_acquire)) sched_yield();
}

void tt_comm_disown(struct tuttiComm *comm)
{
  atomic_store_explicit(&comm->queue.owner, 0, memory_order_release);
}

static void deregister_memory(const struct tuttiComm *comm, const struct tt_registration *registration)
{
  for (int t = 0; t < comm->parts.ntransports; t++) {
    struct tt_transport *transport = comm->parts.transports[t];
    if (registration->handles[t]) transport->ops->deregister_memory(transport, registration->handles[t]);
  }
}

/* *is_used: a transport has made something of it. */
static tuttiResult_t register_memory(const struct tuttiComm *comm, struct tt_registration *registration,
                                     const struct tt_registered *what, int *is_used)
{
  tuttiResult_t result = tuttiSuccess;
  *is_used = 0;
  for (int t = 0; t < comm->parts.ntransports && result == tuttiSuccess; t++) {
    struct tt_transport *transport = comm->parts.transports[t];
    if (transport && transport->ops->register_memory)
      result = transport->ops->register_memory(transport, what, &registration->handles[t]);
    *is_used |= registration->handles[t] != NULL;
  }
  if (result != tuttiSuccess) deregister_memory(comm, registration);
  return result;
}

/* Only devices reach the memory of some: those are shown it by a descriptor, which is used at once. */
static tuttiResult_t descriptor_get(struct tt_registered *what)
{
  return tt_cuda_has(what->data) ? tt_cuda_expose(what->data, what->len, &what->fd, &what->offset) : tuttiSuccess;
}

static tuttiResult_t register_all(struct tuttiComm *comm, struct tt_registration *registration,
                                  struct tt_registered *what, int *is_used)
{
  tuttiResult_t result = descriptor_get(what);
  if (result != tuttiSuccess) return result;
  tt_comm_own(comm);
  result = register_memory(comm, registration, what, is_used);
  if (result == tuttiSuccess && *is_used) {
    registration->next = comm->calls.registrations;
    comm->calls.registrations = registration;
  }
  tt_comm_disown(comm);
  if (what->fd >= 0) close(what->fd);
  return result;
}

static int is_wanted(const struct tuttiComm *comm)
{
  int wanted = 0;
  for (int t = 0; t < comm->parts.ntransports; t++)
    wanted |= comm->parts.transports[t] && comm->parts.transports[t]->ops->register_memory;
  return wanted;
}

tuttiResult_t tt_comm_register(struct tuttiComm *comm, void *buff, size_t size, void **handle)
{
  struct tt_registered what = {buff, size, -1, 0};
  int is_used = 0;
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = tt_comm_health(comm);
  struct tt_registration *registration = NULL;
  if (comm->parts.views) result = tt_views_standing(comm); /* the communicators behind it come and go: all is copied */
  else if (result == tuttiSuccess && is_wanted(comm)) {
    registration = tt_alloc(1, sizeof *registration);
    result = registration ? register_all(comm, registration, &what, &is_used)
                          : tt_fail(tuttiSystemError, "out of memory for a registration");
  }
  tt_comm_exit(comm);
  if (!is_used || result != tuttiSuccess) tt_free(registration);
  if (result == tuttiSuccess) *handle = is_used ? registration : NULL;
  return result;
}

static struct tt_registration *unlink_registration(struct tuttiComm *comm, const void *handle)
{
  struct tt_registration **at = &comm->calls.registrations;
  while (*at && *at != handle) at = &(*at)->next;
  struct tt_registration *registration = *at;
  if (registration) *at = registration->next;
  return registration;
}

tuttiResult_t tt_comm_deregister(struct tuttiComm *comm, void *handle)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tt_comm_own(comm);
  struct tt_registration *registration = unlink_registration(comm, handle);
  if (registration) deregister_memory(comm, registration);
  tt_comm_disown(comm);
  tt_comm_exit(comm);
  tt_free(registration);
  if (registration) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "handle %p was not made by tuttiCommRegister on this communicator, or was given "
                 "back already", handle);
}

void tt_registrations_free(struct tuttiComm *comm)
{
  while (comm->calls.registrations) {
    struct tt_registration *registration = comm->calls.registrations;
    comm->calls.registrations = registration->next;
    tt_free(registration);
  }
}
