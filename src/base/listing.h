/* SPDX-License-Identifier: BSD-3-Clause */
/* A listing of what is there, in sections of named lines: text for people, or one JSON object of objects. */
#ifndef TT_BASE_LISTING_H
#define TT_BASE_LISTING_H

#include <stdio.h>

struct tt_listing {
  FILE *out;
  int json;
  int sections, lines; /* so far; lines: of this section */
};

/* Begins a section. A note, which may be NULL, stands behind its name in text only. */
void tt_listing_section(struct tt_listing *listing, const char *name, const char *note);

/* A line of the section, "name text"; in JSON "name": "text". */
__attribute__((format(printf, 3, 4))) void tt_listing_line(struct tt_listing *listing, const char *name,
                                                           const char *format, ...);

/* A line of several values: in JSON an object of them, by these n keys. In text nothing: the caller prints it. */
void tt_listing_object(struct tt_listing *listing, const char *name, int n, const char *const *keys,
                       const char *const *values);

void tt_listing_end(struct tt_listing *listing);

#endif
