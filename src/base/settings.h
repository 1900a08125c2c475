/* SPDX-License-Identifier: BSD-3-Clause */
/* The settings table (settings.def) as a struct. getenv is called in settings.c only. */
#ifndef TT_BASE_SETTINGS_H
#define TT_BASE_SETTINGS_H

#include <stddef.h>
#include <stdint.h>

#include "base/listing.h"
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

/* Lists the table: name, value, source (default or environment), range, unit and help, one setting a line; what is set
 * comes first. In text each subject is a section, "settings (failures)"; in JSON all are one. For `tutti info`. */
void tt_settings_list(struct tt_listing *listing, const struct tt_settings *settings);

/* A hash of the settings that must be the same on all ranks (those whose help
 * begins with '='). */
uint64_t tt_settings_wire_hash(const struct tt_settings *settings);

/* tt_settings_wire_marks makes a byte of hash for each of these settings: if the bytes of two ranks differ, so do their
 * settings. (Settings beyond the last byte share the bytes of others.) tt_settings_unlike_text writes the names of
 * settings that may differ, with ", " between them, into text; returns text. */
#define TT_SETTINGS_MARKS 24
void tt_settings_wire_marks(const struct tt_settings *settings, uint8_t marks[TT_SETTINGS_MARKS]);
const char *tt_settings_unlike_text(const uint8_t a[TT_SETTINGS_MARKS], const uint8_t b[TT_SETTINGS_MARKS], char *text,
                                    size_t size);

/* Reads a number of bytes and moves *text past it: digits, possibly with a fraction and an exponent (1.5, 1e6), then
 * nothing, B, or K, M or G (KiB, MiB, GiB mean the same; powers of 1,024). The value is a whole number. 0: there is no
 * number, its value is not whole or not less than INT64_MAX, or it has more than 19 digits from its first to its last
 * that is not 0; then nothing is written. This function reads all sizes of settings, rules, profiles, policies and
 * tools (tuttiReadSize); perf/measuring.py reads those of programs in Python in the same way (tests/unit/sizes.csv). */
int tt_bytes_read(const char **text, uint64_t *bytes);

/* The value of a variable that is not ours (a launcher's), or NULL if unset or empty. */
const char *tt_env(const char *name);

#endif
