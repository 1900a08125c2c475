/* SPDX-License-Identifier: BSD-3-Clause */
#include "meeting.h"

#include <stdio.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "ranks.h"

long meeting_now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

long meeting_now_ms(void)
{
  return meeting_now_us() / 1000;
}

int meeting_await(const _Atomic int *count, int n)
{
  long limit = meeting_now_ms() + MEETING_LIMIT_S * 1000L * ranks_patience();
  while (atomic_load(count) < n && meeting_now_ms() < limit) usleep(200);
  return atomic_load(count) >= n;
}

struct meeting *meeting_make(int members)
{
  struct meeting *meeting = ranks_shared(sizeof *meeting);
  if (meeting) meeting->members = members;
  return meeting;
}

void meeting_free(struct meeting *meeting)
{
  if (meeting) munmap(meeting, sizeof *meeting);
}

int meeting_wait(struct meeting *meeting)
{
  long limit = meeting_now_ms() + MEETING_LIMIT_S * 1000;
  long ticket = atomic_fetch_add(&meeting->arrived, 1);
  long all = (ticket / meeting->members + 1) * meeting->members;
  while (atomic_load(&meeting->arrived) < all && !atomic_load(&meeting->broken)) {
    usleep(200);
    if (meeting_now_ms() > limit) atomic_store(&meeting->broken, 1);
  }
  return !atomic_load(&meeting->broken);
}

int meeting_id(struct meeting *meeting, int makes, tuttiUniqueId *id)
{
  if (!meeting_wait(meeting)) return 0;
  if (makes && tuttiGetUniqueId(&meeting->id) != tuttiSuccess) {
    fprintf(stderr, "no unique id: %s\n", tuttiGetLastError(NULL));
    atomic_store(&meeting->broken, 1);
  }
  if (!meeting_wait(meeting)) return 0;
  *id = meeting->id;
  return 1;
}
