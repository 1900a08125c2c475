/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings table (settings.def) as a struct. getenv is called in settings.c only. */
#ifndef TT_BASE_SETTINGS_H
#define TT_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti.h"

#define TT_SETTING_TEXT_BYTES 256

struct tt_settings {
#define TT_INT(field, name, value, low, high, unit, help) int64_t field;
#define TT_CHOICE(field, name, value, choices, help) int field;
#define TT_TEXT(field, name, value, help) char field[TT_SETTING_TEXT_BYTES];
#include "base/settings.def"
#undef TT_INT
#undef TT_CHOICE
#undef TT_TEXT
};

/* Reads all settings from the environment into *settings. An empty variable counts
 * as unset. Errors: tuttiInvalidArgument naming variable, value and what was wanted. */
tuttiResult_t tt_settings_load(struct tt_settings *settings);

/* Warns once per process about TUTTI_* variables that are not in the table. */
void tt_settings_warn_unknown(void);

/* Prints the table: name, value, source (default or environment), range,
 * unit and help, one setting a line. For `tutti info`. */
void tt_settings_print(FILE *out, const struct tt_settings *settings);

/* A hash of the settings that must be the same on all ranks (those whose help
 * begins with '='). */
uint64_t tt_settings_wire_hash(const struct tt_settings *settings);

/* A byte of hash for each of these: where the bytes of two ranks differ, so do their settings. (Settings beyond the
 * last byte share those of others.) Names of these, ", " between them, into text; returns text. */
#define TT_SETTINGS_MARKS 16
void tt_settings_wire_marks(const struct tt_settings *settings, uint8_t marks[TT_SETTINGS_MARKS]);
const char *tt_settings_unlike_text(const uint8_t a[TT_SETTINGS_MARKS], const uint8_t b[TT_SETTINGS_MARKS], char *text,
                                    size_t size);

/* Reads a number of bytes and moves *text behind it: digits, with a fraction and an exponent if need be (1.5, 1e6),
 * then nothing, B, or K, M or G (KiB, MiB, GiB mean the same; powers of 1,024). The value is a whole number. 0: there
 * is none, the value is not whole or not less than INT64_MAX, or has more than 19 digits between its first and last
 * that are not 0; nothing is written. All sizes of settings, rules, profiles, policies and tools (tuttiReadSize) are
 * read by this, and those of programs in Python by perf/measuring.py in the same way (tests/unit/sizes.csv). */
int tt_bytes_read(const char **text, uint64_t *bytes);

/* A variable that belongs to somebody else (a launcher), or NULL if unset or empty. */
const char *tt_env(const char *name);

#endif
