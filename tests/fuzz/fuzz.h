/* SPDX-License-Identifier: BSD-3-Clause */
/* Targets to fuzz: each gives bytes to one parser, or to what takes one kind of record from the network. Whatever the
 * bytes are, it must neither crash nor hang, and nothing that it accepts may break what is promised of it. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define FUZZ_BYTES 4096 /* of an input, at most */

struct fuzz_target {
  const char *name;
  void (*run)(const uint8_t *bytes, size_t len);
  const char *const *texts;                              /* good inputs, up to NULL; or NULL, and: */
  size_t (*make)(int number, uint8_t bytes[FUZZ_BYTES]); /* writes a good input, and returns its length; 0: there are
                                                            no more */
  int slowness; /* inputs of it take so many times as long as most; 0: as long */
};

/* Up to a row without a name. */
extern const struct fuzz_target fuzz_texts[], fuzz_records[], fuzz_starts[], fuzz_cores[], fuzz_runs[],
    fuzz_verbs[], fuzz_packets[], fuzz_rings[], fuzz_told[];

/* Ends the program: the input has shown a fault. */
#define FUZZ_CHECK(holds)                                 \
  do {                                                    \
    if (!(holds)) fuzz_fault(__FILE__, __LINE__, #holds); \
  } while (0)
_Noreturn void fuzz_fault(const char *file, int line, const char *what);

/* The bytes up to the first 0 as a text, to be freed. */
char *fuzz_text(const uint8_t *bytes, size_t len);

/* They as a file to read. */
FILE *fuzz_file(const uint8_t *bytes, size_t len);

/* Numbers taken from the input, one after the other; 0 at its end. */
struct fuzz_bytes {
  const uint8_t *at;
  size_t left;
};
uint64_t fuzz_take(struct fuzz_bytes *input, size_t bytes); /* so many bytes, little endian */
void fuzz_fill(struct fuzz_bytes *input, void *to, size_t bytes);

#endif
