/* SPDX-License-Identifier: BSD-3-Clause */
/* The registered kinds of memory, in four slots of the process object. Writers hold
 * its mutex; readers take no lock and look at the slots only while the count says that
 * one is set. A thread that was handed a pointer of a device after the registration also
 * sees the count. */
#include "device/device.h"

_Static_assert(sizeof tt_process.devices / sizeof *tt_process.devices == TT_DEVICES, "slots of the process object");

static const struct tt_device *slot_get(int slot)
{
  return atomic_load_explicit(&tt_process.devices[slot], memory_order_acquire);
}

static void slot_set(int slot, const struct tt_device *device, int change)
{
  atomic_store_explicit(&tt_process.devices[slot], device, memory_order_release);
  atomic_fetch_add_explicit(&tt_process.device_count, change, memory_order_release);
}

static __attribute__((noinline)) const struct tt_device *owner_of(const void *pointer)
{
  for (int slot = 0; slot < TT_DEVICES; slot++) {
    const struct tt_device *device = slot_get(slot);
    if (!device) continue;
    if (!device->member && device->owns(device, pointer)) return device;
    const struct tt_device *member = device->member ? device->member(device, pointer) : NULL;
    if (member) return member;
  }
  return &tt_host_device;
}

const struct tt_device *tt_device_of(const void *pointer)
{
  if (atomic_load_explicit(&tt_process.device_count, memory_order_relaxed) == 0) return &tt_host_device;
  return owner_of(pointer);
}

/* The slot that holds `device` (NULL: a free one), -1 if there is none. Mutex held. */
static int slot_find(const struct tt_device *device)
{
  for (int slot = 0; slot < TT_DEVICES; slot++)
    if (slot_get(slot) == device) return slot;
  return -1;
}

tuttiResult_t tt_device_register(const struct tt_device *device)
{
  if (!device) return tt_fail(tuttiInvalidArgument, "device to register is NULL");
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  int slot = slot_find(NULL);
  if (slot_find(device) >= 0) result = tt_fail(tuttiInvalidUsage, "device %s is registered already", device->name);
  else if (slot < 0)
    result = tt_fail(tuttiInternalError, "device %s is one too many: at most %d can be registered", device->name,
                     TT_DEVICES);
  else slot_set(slot, device, 1);
  pthread_mutex_unlock(&tt_process.mutex);
  return result;
}

void tt_device_unregister(const struct tt_device *device)
{
  if (!device) return;
  pthread_mutex_lock(&tt_process.mutex);
  int slot = slot_find(device);
  if (slot >= 0) slot_set(slot, NULL, -1);
  pthread_mutex_unlock(&tt_process.mutex);
}
