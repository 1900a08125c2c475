/* SPDX-License-Identifier: BSD-3-Clause */
/* Which memory of this process a device knows: that of the heap, registered block by block when a block is first met,
 * and what users register. Private to the verbs transport.
 *
 * A block of the heap stays registered until it is freed: then its region goes before its pages do, whoever frees it
 * (tt_heap_watch), so that what comes to lie at the same address later, on other pages, never meets it. Blocks are the
 * largest pieces there are: between them are pages that nobody may touch, and no device can register those.
 *
 * One thread at a time looks, adds and removes: the owner of the communicator. Only it makes regions, so it looks
 * without a lock; others, who free blocks, take them away, but never one that a call uses.
 *
 * Blocks are registered and taken back under the heap's lock: else a block could be freed, and its addresses given to
 * another, while a device pins its pages. So allocations of all threads wait as long as that takes; as they do while
 * another thread's block gets its pages, which takes about as long. It happens once a block. */
#ifndef TT_TRANSPORT_VERBS_MEMORY_H
#define TT_TRANSPORT_VERBS_MEMORY_H

#include "memory/memory.h"
#include "transport/transport.h"
#include "transport/verbs_api_private.h"

#ifdef TT_HAVE_VERBS

struct verbs_device;
struct verbs_memory;

/* For a device that is open and outlives it. Errors: tuttiSystemError. */
tuttiResult_t tt_verbs_memory_create(struct verbs_memory **memory, struct verbs_device *device);

/* The region that has all of [data, data + len), which peers may write to as well; NULL: there is none, and the bytes
 * have to be copied. A block of the heap that is met for the first time is registered, which takes a while; if it
 * cannot be, that is logged once, and it is not tried again. NULL for memory is allowed: there is none. */
struct ibv_mr *tt_verbs_memory_find(struct verbs_memory *memory, const void *data, size_t len);

/* Gives up the regions of all blocks of the heap, to be made again when they are met: how many. No link uses them. */
int tt_verbs_memory_spare(struct verbs_memory *memory);

/* As tt_transport_ops.enroll and withdraw. */
tuttiResult_t tt_verbs_memory_enroll(struct verbs_memory *memory, const struct tt_enrolled *what, void **handle);
void tt_verbs_memory_withdraw(struct verbs_memory *memory, void *handle);

/* Takes all regions away and makes none any more. No queue pair uses them. */
void tt_verbs_memory_halt(struct verbs_memory *memory);
void tt_verbs_memory_destroy(struct verbs_memory *memory); /* NULL is allowed */

#endif
#endif
