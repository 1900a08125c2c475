/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "auth/auth.h"
#include "auth/hash_private.h"

#define FILE_LEAST 16
#define FILE_MOST 4096

tuttiResult_t tt_auth_init(void)
{
  if (sodium_init() >= 0) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "no source of random numbers: getrandom(2) and /dev/urandom "
                                   "must work in this process");
}

void tt_random(void *out, size_t len)
{
  randombytes_buf(out, len);
}

void tt_wipe(void *secret, size_t len)
{
  sodium_memzero(secret, len);
}

void tt_hash(uint8_t out[32], const uint8_t *key, const struct tt_piece *pieces, int count)
{
  crypto_generichash_state state;
  crypto_generichash_init(&state, key, key ? TT_KEY_BYTES : 0, 32);
  for (int i = 0; i < count; i++)
    crypto_generichash_update(&state, pieces[i].data, pieces[i].len);
  crypto_generichash_final(&state, out, 32);
  sodium_memzero(&state, sizeof state);
}

void tt_key_derive(uint8_t out[TT_KEY_BYTES], const uint8_t key[TT_KEY_BYTES], const char *label,
                   const void *data, size_t len)
{
  const struct tt_piece pieces[] = {{label, strlen(label) + 1}, {data, len}};
  tt_hash(out, key, pieces, len ? 2 : 1);
}

void tt_digest(uint8_t out[TT_KEY_BYTES], const void *data, size_t len)
{
  const struct tt_piece piece = {data, len};
  tt_hash(out, NULL, &piece, len ? 1 : 0);
}

/* Reads up to `size` bytes of a file; -1 and errno on an error. */
static ssize_t read_all(int fd, uint8_t *buffer, size_t size)
{
  size_t used = 0;
  while (used < size) {
    ssize_t n = read(fd, buffer + used, size - used);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    if (n == 0) break;
    used += (size_t)n;
  }
  return (ssize_t)used;
}

static tuttiResult_t file_check(int fd, const char *path)
{
  struct stat status;
  if (fstat(fd, &status) != 0)
    return tt_fail(tuttiInvalidUsage, "TUTTI_KEY_FILE %s: %s", path, strerror(errno));
  if (!S_ISREG(status.st_mode))
    return tt_fail(tuttiInvalidUsage, "TUTTI_KEY_FILE %s is not a regular file", path);
  if (status.st_uid != geteuid())
    return tt_fail(tuttiInvalidUsage,
                   "TUTTI_KEY_FILE %s belongs to uid %u, not to uid %u that runs this: chown it",
                   path, (unsigned)status.st_uid, (unsigned)geteuid());
  if (status.st_mode & 07777 & ~0600u)
    return tt_fail(tuttiInvalidUsage,
                   "TUTTI_KEY_FILE %s has mode %04o, others may read the secret: chmod 600 it", path,
                   (unsigned)status.st_mode & 07777);
  return tuttiSuccess;
}

static tuttiResult_t file_hash(int fd, const char *path, uint8_t out[TT_KEY_BYTES])
{
  static const char label[] = "tutti-key-file";
  uint8_t secret[FILE_MOST + 1];
  ssize_t len = read_all(fd, secret, sizeof secret);
  if (len < 0) return tt_fail(tuttiInvalidUsage, "TUTTI_KEY_FILE %s: %s", path, strerror(errno));
  if (len >= FILE_LEAST && len <= FILE_MOST) {
    const struct tt_piece pieces[] = {{label, sizeof label}, {secret, (size_t)len}};
    tt_hash(out, NULL, pieces, 2);
  }
  tt_wipe(secret, sizeof secret);
  if (len >= FILE_LEAST && len <= FILE_MOST) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage,
                 "TUTTI_KEY_FILE %s has %s%zd bytes: give it %d to %d, e.g. by `openssl rand -hex 32`",
                 path, len > FILE_MOST ? "at least " : "", len, FILE_LEAST, FILE_MOST);
}

tuttiResult_t tt_key_file_read(const char *path, uint8_t out[TT_KEY_BYTES])
{
  /* O_NONBLOCK, because a pipe in the file's place must not stop the start-up. */
  int fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0)
    return tt_fail(tuttiInvalidUsage, "TUTTI_KEY_FILE %s cannot be opened: %s%s", path,
                   strerror(errno), errno == ELOOP ? " (a link is not followed: name the file itself)" : "");
  tuttiResult_t result = file_check(fd, path);
  if (result == tuttiSuccess) result = file_hash(fd, path, out);
  close(fd);
  return result;
}
