/* SPDX-License-Identifier: BSD-3-Clause */
/* Machines that do not exist, as trees of files that look like /sys. */
#ifndef FAKE_SYSFS_H
#define FAKE_SYSFS_H

#include <stdint.h>

#define FAKE_ROOT_BYTES 64

struct fake_machine {
  int sockets, numas, caches, cores, threads; /* each: in one of the next larger; numbered one after another */
  uint64_t offline;                           /* bit p: processor p is; 64 processors at most */
  int old_names;                              /* thread_siblings_list and core_siblings_list, as before Linux 5.3 */
};

/* Makes the tree in a new directory; root becomes its path: sysfs is at ROOT/sys. Ends the program if it cannot. */
void fake_sysfs_create(char root[FAKE_ROOT_BYTES], const struct fake_machine *machine);

/* Writes (or, if text is NULL, removes) one file below ROOT/sys/devices/system. */
void fake_sysfs_write(const char *root, const char *path, const char *text);

void fake_sysfs_destroy(const char *root);

#endif
