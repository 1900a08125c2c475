/* SPDX-License-Identifier: BSD-3-Clause */
/* The user at the other end of a local socket, as the kernel reports it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/private.h"

/* A short file of /proc, or "". */
static void file_text(const char *path, char *text, size_t size)
{
  FILE *file = fopen(path, "re");
  size_t n = file ? fread(text, 1, size - 1, file) : 0;
  text[n] = 0;
  if (file) fclose(file);
}

/* True for the overflow uid: in a user namespace the kernel shows every user that is not mapped into it as that. */
static int is_ambiguous(uid_t uid)
{
  char text[256];
  unsigned long inside, outside, count;
  file_text("/proc/sys/kernel/overflowuid", text, sizeof text);
  if (uid != (text[0] ? (uid_t)strtoul(text, NULL, 10) : 65534)) return 0;
  file_text("/proc/self/uid_map", text, sizeof text);
  return sscanf(text, "%lu %lu %lu", &inside, &outside, &count) != 3 || inside || outside || count != UINT32_MAX;
}

int tt_user_is_ours(int socket, char *who, size_t size)
{
  struct ucred peer;
  socklen_t len = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &len) != 0) {
    snprintf(who, size, "a process that the kernel does not name");
    return 0;
  }
  int is_unsure = is_ambiguous(peer.uid);
  snprintf(who, size, "process %d of uid %u%s", (int)peer.pid, (unsigned)peer.uid,
           is_unsure ? " (or one that this user namespace does not know)" : "");
  return peer.uid == geteuid() && !is_unsure;
}
