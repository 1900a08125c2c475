/* SPDX-License-Identifier: BSD-3-Clause */
/* The memory of this process that is registered with a device: blocks of the heap, each when it is first used, and
 * memory that users register. Private to the verbs transport.
 *
 * A block of the heap stays registered until it is freed. Its region then goes before its pages do, whichever thread
 * frees it (tt_heap_watch), so that later memory at the same address, on other pages, never meets the old region. A
 * block is the largest piece that can be registered: between blocks are pages that cannot be accessed, and no device
 * can register those.
 *
 * One thread at a time finds, adds and removes regions: the owner of the communicator. Only it adds regions, so it
 * looks without a lock. Other threads remove regions when they free blocks, but never one that a call uses.
 *
 * Blocks are registered and deregistered under the heap's lock: else a block could be freed, and its addresses given to
 * another, while a device pins its pages. So allocations of all threads wait as long as that takes, as they do while
 * another thread's block gets its pages, which takes about as long. It happens once per block. */
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

/* The region that has all of [data, data + len), to which peers may write as well; NULL: there is none, and the bytes
 * have to be copied. A block of the heap is registered when it is first found here, which takes a while; a failure is
 * logged once, and the block is not tried again. If memory is NULL, so is the region. */
struct ibv_mr *tt_verbs_memory_find(struct verbs_memory *memory, const void *data, size_t len);

/* Gives up the regions of all blocks of the heap, to be made again when the blocks are used, and returns how many. No
 * link uses them meanwhile. */
int tt_verbs_memory_spare(struct verbs_memory *memory);

/* As tt_transport_ops.register_memory and deregister_memory. */
tuttiResult_t tt_verbs_memory_register(struct verbs_memory *memory, const struct tt_registered *what, void **handle);
void tt_verbs_memory_deregister(struct verbs_memory *memory, void *handle);

/* Removes all regions and makes none any more. No queue pair uses them now. */
void tt_verbs_memory_halt(struct verbs_memory *memory);
void tt_verbs_memory_destroy(struct verbs_memory *memory); /* NULL is allowed */

#endif
#endif
