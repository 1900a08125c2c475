/* SPDX-License-Identifier: BSD-3-Clause */
/* Descriptors over local sockets, and the shared memory that travels that way. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/wire.h"
#include "net/net.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* Room for exactly one descriptor: CMSG_LEN, because CMSG_SPACE has room for two. */
union control {
  struct cmsghdr header;
  char bytes[CMSG_SPACE(sizeof(int))];
};

tuttiResult_t tt_fd_send(int socket, int fd, uint64_t len)
{
  uint8_t body[8];
  union control control;
  memset(&control, 0, sizeof control);
  tt_wire_put(body, 8, len);
  struct iovec part = {body, sizeof body};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
  control.header.cmsg_level = SOL_SOCKET;
  control.header.cmsg_type = SCM_RIGHTS;
  control.header.cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(&control.header), &fd, sizeof fd);
  ssize_t n = sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n == sizeof body) return tuttiSuccess;
  if (n < 0 && (errno == EAGAIN || errno == EINTR || errno == ENOBUFS)) return tuttiInProgress;
  if (n < 0 && (errno == EPIPE || errno == ECONNRESET))
    return tt_fail(tuttiRemoteError, "the process that asked for descriptor %d has gone", fd);
  return tt_fail(tuttiSystemError, "sending descriptor %d: %s", fd,
                 n < 0 ? strerror(errno) : "cut short");
}

/* The one descriptor of a message, or -1. */
static int control_fd(const struct msghdr *message)
{
  struct cmsghdr *header = CMSG_FIRSTHDR(message);
  int fd = -1;
  if (header && header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_RIGHTS &&
      header->cmsg_len == CMSG_LEN(sizeof(int)))
    memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return fd;
}

tuttiResult_t tt_fd_recv(int socket, int *fd, uint64_t *len)
{
  uint8_t body[8];
  union control control;
  memset(&control, 0, sizeof control);
  struct iovec part = {body, sizeof body};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = control.bytes,
                           .msg_controllen = CMSG_LEN(sizeof(int))};
  ssize_t n = recvmsg(socket, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return tuttiInProgress;
  if (n < 0 && errno != ECONNRESET)
    return tt_fail(tuttiSystemError, "receiving a descriptor: %s", strerror(errno));
  if (n <= 0)
    return tt_fail(tuttiRemoteError, "the process that was to send a descriptor has gone");
  int got = control_fd(&message);
  if (n == sizeof body && got >= 0 && !(message.msg_flags & MSG_CTRUNC)) {
    *fd = got;
    *len = tt_wire_get(body, 8);
    return tuttiSuccess;
  }
  if (got >= 0) close(got);
  return tt_fail(tuttiRemoteError,
                 "a message of %zd bytes without exactly one descriptor came where one was due "
                 "(out of descriptors here? see `ulimit -n`)", n);
}

static tuttiResult_t memory_fail(const char *what, size_t len)
{
  return tt_fail(tuttiSystemError, "%s of %zu bytes of shared memory: %s%s", what, len,
                 strerror(errno),
                 errno == ENOSPC || errno == ENOMEM
                     ? ": TUTTI_SHM_SLOTS and TUTTI_SHM_SLOT_BYTES make it smaller, the memory "
                       "limit of the container larger"
                     : "");
}

static tuttiResult_t map_shared(int fd, size_t len, void **map)
{
  void *made = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (made == MAP_FAILED) return memory_fail("mmap", len);
  /* A forked child must not keep it alive, a core file not hold everybody's data. */
  madvise(made, len, MADV_DONTFORK);
  madvise(made, len, MADV_DONTDUMP);
  *map = made;
  return tuttiSuccess;
}

static int allocate(int fd, size_t len)
{
  int error;
  do error = fallocate(fd, 0, 0, (off_t)len) != 0 ? errno : 0;
  while (error == EINTR);
  errno = error;
  return error;
}

tuttiResult_t tt_memory_create(const char *name, size_t len, int *fd, void **map)
{
  if (len == 0) return tt_fail(tuttiInternalError, "shared memory \"%s\" of 0 bytes", name);
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int made = memfd_create(name, flags | MFD_NOEXEC_SEAL);
  if (made < 0 && errno == EINVAL) made = memfd_create(name, flags); /* before Linux 6.3 */
  if (made < 0) return memory_fail("memfd_create", len);
  void *at = NULL;
  tuttiResult_t result = tuttiSuccess;
  if (allocate(made, len) != 0) result = memory_fail("fallocate", len);
  else if (fcntl(made, F_ADD_SEALS, SEALS) != 0) result = memory_fail("sealing", len);
  else result = map_shared(made, len, &at);
  if (result != tuttiSuccess) {
    close(made);
    return result;
  }
  *fd = made;
  *map = at;
  return tuttiSuccess;
}

tuttiResult_t tt_memory_map(int fd, size_t len, void **map)
{
  struct stat status;
  int seals = fcntl(fd, F_GET_SEALS);
  if (fstat(fd, &status) != 0) return memory_fail("fstat", len);
  if (!S_ISREG(status.st_mode) || len == 0 || (uint64_t)status.st_size != len)
    return tt_fail(tuttiRemoteError, "shared memory of %lld bytes came where %zu bytes were due",
                   (long long)status.st_size, len);
  if (seals < 0 || (seals & SEALS) != SEALS)
    return tt_fail(tuttiRemoteError, "shared memory came without its seals (%#x, due %#x)", seals,
                   SEALS);
  return map_shared(fd, len, map);
}
