/* SPDX-License-Identifier: BSD-3-Clause */
/* Protection domains and registered memory. */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "state.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
  if (fake_fails("ibv_alloc_pd")) return NULL;
  struct fake_pd *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->pd.context = context;
  fake_lock();
  made->number = (int)++fake_segment->pds;
  COUNTS.pds++;
  fake_context_use(context, 1);
  fake_unlock();
  return &made->pd;
}

int ibv_dealloc_pd(struct ibv_pd *pd)
{
  struct fake_pd *of_it = (struct fake_pd *)pd;
  int code = fake_fails_late("ibv_dealloc_pd");
  fake_lock();
  if (of_it->users) {
    fake_breach("a protection domain is freed with %ld objects alive", of_it->users);
    fake_unlock();
    return EBUSY;
  }
  COUNTS.pds--;
  fake_context_use(pd->context, -1);
  fake_unlock();
  free(of_it);
  return code;
}

/* ---- registration ---- */

static int take_slot(struct fake_mr *made)
{
  int is_limited = !SETTINGS.memlock_of || SETTINGS.memlock_of == getpid();
  long registered = 0;
  int slot = -1;
  for (int i = 0; i < MRS; i++) {
    struct mr *mr = &fake_segment->mrs[i];
    if (mr->owner.pid == getpid()) registered += (long)mr->len;
    else if (slot < 0 && fake_is_free(&mr->owner)) slot = i;
  }
  if (slot < 0 || (is_limited && registered + (long)made->mr.length > SETTINGS.memlock)) return -1;
  return slot;
}

/* `memory` is where the bytes are, `iova` what work requests call it. */
static struct ibv_mr *reg(struct fake_mr *made, char *memory, uint64_t iova, unsigned access)
{
  struct fake_pd *pd = (struct fake_pd *)made->mr.pd;
  fake_lock();
  int slot = take_slot(made);
  if (slot < 0) {
    fake_unlock();
    free(made);
    errno = ENOMEM;
    return NULL;
  }
  struct mr *mr = &fake_segment->mrs[slot];
  fake_own(&mr->owner, made);
  mr->pd = pd->number;
  mr->context = fake_context_slot(pd->pd.context);
  mr->key = (mr->owner.generation << 13 | (uint32_t)slot << 1) + 2 * MRS;
  mr->access = access;
  mr->iova = iova;
  mr->len = made->mr.length;
  mr->memory = memory;
  mr->is_mapped = 0;
  made->slot = slot;
  made->mr.context = pd->pd.context;
  made->mr.handle = (uint32_t)slot;
  made->mr.lkey = mr->key;
  made->mr.rkey = mr->key + 1;
  pd->users++;
  COUNTS.regions++;
  COUNTS.registered += (long)mr->len;
  fake_unlock();
  return &made->mr;
}

static struct fake_mr *prepare(struct ibv_pd *pd, void *addr, size_t len, unsigned access)
{
  unsigned remote = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
  if (len == 0 || ((access & remote) && !(access & IBV_ACCESS_LOCAL_WRITE))) {
    errno = EINVAL;
    return NULL;
  }
  struct fake_mr *made = calloc(1, sizeof *made);
  if (!made) return NULL;
  made->mr.pd = pd;
  made->mr.addr = addr;
  made->mr.length = len;
  return made;
}

static struct ibv_mr *reg_memory(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
  struct fake_mr *made = prepare(pd, addr, len, access);
  unsigned char in_core;
  uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), last = (uintptr_t)addr + len - 1;
  if (!made) return NULL;
  if (mincore((void *)((uintptr_t)addr & ~(page - 1)), 1, &in_core) != 0 ||
      mincore((void *)(last & ~(page - 1)), 1, &in_core) != 0) {
    free(made);
    errno = EFAULT;
    return NULL;
  }
  return reg(made, addr, iova, access);
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
  return fake_fails("ibv_reg_mr") ? NULL : reg_memory(pd, addr, len, (uintptr_t)addr, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, int access)
{
  return fake_fails("ibv_reg_mr_iova") ? NULL : reg_memory(pd, addr, len, iova, (unsigned)access);
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova, unsigned access)
{
  return fake_fails("ibv_reg_mr_iova2") ? NULL : reg_memory(pd, addr, len, iova, access);
}

/* The descriptor of any memory that can be mapped, e.g. a memfd, stands for a dma-buf. */
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t len, uint64_t iova, int fd, int access)
{
  if (fake_fails("ibv_reg_dmabuf_mr")) return NULL;
  struct fake_mr *made = prepare(pd, NULL, len, (unsigned)access);
  uint64_t in_page = offset % (uint64_t)sysconf(_SC_PAGESIZE);
  if (!made) return NULL;
  char *memory =
      mmap(NULL, len + in_page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)(offset - in_page));
  if (memory == MAP_FAILED) {
    free(made);
    return NULL;
  }
  struct ibv_mr *mr = reg(made, memory + in_page, iova, (unsigned)access);
  if (!mr) munmap(memory, len + in_page);
  else fake_segment->mrs[mr->handle].is_mapped = 1;
  return mr;
}

int ibv_rereg_mr(struct ibv_mr *mr, int flags, struct ibv_pd *pd, void *addr, size_t len, int access)
{
  (void)mr, (void)flags, (void)pd, (void)addr, (void)len, (void)access;
  return IBV_REREG_MR_ERR_INPUT;
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
  struct fake_mr *of_it = (struct fake_mr *)mr;
  int code = fake_fails_late("ibv_dereg_mr");
  fake_lock();
  struct mr *slot = &fake_segment->mrs[of_it->slot];
  if (slot->is_mapped) {
    uint64_t in_page = (uintptr_t)slot->memory % (uintptr_t)sysconf(_SC_PAGESIZE);
    munmap(slot->memory - in_page, slot->len + in_page);
  }
  COUNTS.registered -= (long)slot->len;
  COUNTS.regions--;
  slot->owner.pid = 0;
  slot->len = 0;
  ((struct fake_pd *)mr->pd)->users--;
  fake_unlock();
  free(of_it);
  return code;
}

/* ---- use ---- */

struct mr *fake_region(uint32_t key, int is_remote)
{
  if ((key & 1) != (unsigned)is_remote) return NULL;
  struct mr *mr = &fake_segment->mrs[key >> 1 & (MRS - 1)];
  return !fake_is_free(&mr->owner) && mr->key == key - (unsigned)is_remote ? mr : NULL;
}

char *fake_reach(const struct mr *mr, int pd, uint64_t address, uint64_t len, unsigned access)
{
  if (!mr || mr->pd != pd || (mr->access & access) != access) return NULL;
  if (address < mr->iova || len > mr->len || address - mr->iova > mr->len - len) return NULL;
  return mr->memory + (address - mr->iova);
}
