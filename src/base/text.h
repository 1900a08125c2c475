/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people read them. */
#ifndef TT_BASE_TEXT_H
#define TT_BASE_TEXT_H

#include <stdint.h>

#define TT_BYTES_TEXT_BYTES 24
#define TT_US_BYTES 24

/* "1 MiB", "1.41 KiB", "100 B"; returns text. */
const char *tt_bytes_text(uint64_t bytes, char text[TT_BYTES_TEXT_BYTES]);

/* A time in four digits: "0.525", "31.24", "1203"; returns text. */
const char *tt_us_text(double us, char text[TT_US_BYTES]);

#endif
