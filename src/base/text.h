/* SPDX-License-Identifier: BSD-3-Clause */
/* Numbers as people read them, and text as JSON has it. */
#ifndef TT_BASE_TEXT_H
#define TT_BASE_TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TT_BYTES_TEXT_BYTES 24
#define TT_US_BYTES 24

/* "1 MiB", "1.41 KiB", "100 B"; returns text. */
const char *tt_bytes_text(uint64_t bytes, char text[TT_BYTES_TEXT_BYTES]);

/* A time in four digits: "0.525", "31.24", "1203"; returns text. */
const char *tt_us_text(double us, char text[TT_US_BYTES]);

/* The inside of a JSON string: 6 bytes of out for each byte of text are enough, and one more; what does not fit is left
 * out. Bytes beyond ASCII become '?'. Returns out. */
const char *tt_json_text(const char *text, char *out, size_t size);

#endif
