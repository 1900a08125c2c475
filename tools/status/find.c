/* SPDX-License-Identifier: BSD-3-Clause */
/* Status pages of running processes: memfds among their descriptors. A page that several processes hold is one. */
#include "status/status.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINK_TEXT "/memfd:" TT_PAGE_NAME " (deleted)"

static int is_known(const struct tt_pages *pages, const struct stat *file)
{
  for (int i = 0; i < pages->n; i++)
    if (pages->pages[i].device == file->st_dev && pages->pages[i].inode == file->st_ino) return 1;
  return 0;
}

static int has_room(struct tt_pages *pages)
{
  if (pages->n < pages->room) return 1;
  int room = pages->room ? 2 * pages->room : 16;
  struct tt_found_page *more = tt_alloc((size_t)room, sizeof *more);
  if (!more) return 0;
  if (pages->n) memcpy(more, pages->pages, (size_t)pages->n * sizeof *more);
  tt_free(pages->pages);
  pages->pages = more;
  pages->room = room;
  return 1;
}

/* Maps the page behind a descriptor; what is no page of this version is passed over. One that is not sealed could be
 * cut while it is read, by a process of another user. */
static tuttiResult_t page_add(struct tt_pages *pages, int fd)
{
  struct stat file;
  struct tt_page page;
  int seals = fcntl(fd, F_GET_SEALS);
  if (fstat(fd, &file) != 0 || seals < 0 || !(seals & F_SEAL_SHRINK) || is_known(pages, &file)) return tuttiSuccess;
  size_t len = (size_t)file.st_size;
  void *map = len ? mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
  if (map == MAP_FAILED) return tuttiSuccess;
  int fits = tt_page_read(&page, map, len);
  if (fits && has_room(pages)) {
    pages->pages[pages->n++] = (struct tt_found_page){file.st_dev, file.st_ino, page, map, len};
    return tuttiSuccess;
  }
  if (!fits) pages->nother += tt_page_is_other(map, len);
  munmap(map, len);
  return fits ? tt_fail(tuttiSystemError, "no memory for %d communicators", pages->n + 1) : tuttiSuccess;
}

static tuttiResult_t process_add(struct tt_pages *pages, const char *pid)
{
  char path[64 + sizeof(((struct dirent *)0)->d_name)], link[sizeof LINK_TEXT + 1];
  snprintf(path, sizeof path, "/proc/%.16s/fd", pid);
  DIR *folder = opendir(path);
  if (!folder) {
    pages->nclosed += errno == EACCES || errno == EPERM;
    return tuttiSuccess;
  }
  tuttiResult_t result = tuttiSuccess;
  for (struct dirent *at; result == tuttiSuccess && (at = readdir(folder)) != NULL;) {
    snprintf(path, sizeof path, "/proc/%.16s/fd/%s", pid, at->d_name);
    ssize_t n = readlink(path, link, sizeof link);
    if (n != (ssize_t)strlen(LINK_TEXT) || memcmp(link, LINK_TEXT, (size_t)n) != 0) continue;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whatever has such a name: no wait */
    if (fd < 0) continue;
    result = page_add(pages, fd);
    close(fd);
  }
  closedir(folder);
  return result;
}

static int is_wanted(const char *name, int all)
{
  char path[64];
  struct stat process;
  for (const char *c = name; *c; c++)
    if (!isdigit((unsigned char)*c)) return 0;
  snprintf(path, sizeof path, "/proc/%.16s", name);
  return all || (stat(path, &process) == 0 && process.st_uid == geteuid());
}

tuttiResult_t tt_pages_find(struct tt_pages *pages, pid_t pid)
{
  char name[16];
  memset(pages, 0, sizeof *pages);
  snprintf(name, sizeof name, "%d", (int)pid);
  if (pid > 0) return process_add(pages, name);
  DIR *folder = opendir("/proc");
  if (!folder) return tt_fail(tuttiSystemError, "/proc cannot be read: %s", strerror(errno));
  tuttiResult_t result = tuttiSuccess;
  for (struct dirent *at; result == tuttiSuccess && (at = readdir(folder)) != NULL;)
    if (is_wanted(at->d_name, pid < 0)) result = process_add(pages, at->d_name);
  closedir(folder);
  return result;
}

void tt_pages_close(struct tt_pages *pages)
{
  for (int i = 0; i < pages->n; i++) munmap(pages->pages[i].map, pages->pages[i].len);
  tt_free(pages->pages);
  memset(pages, 0, sizeof *pages);
}
