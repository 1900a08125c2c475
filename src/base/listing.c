/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/listing.h"

#include <stdarg.h>

#include "base/text.h"

#define LINE_BYTES 4096

void tt_listing_section(struct tt_listing *listing, const char *name, const char *note)
{
  const char *before = listing->sections ? "\n" : "";
  if (listing->json) fprintf(listing->out, "%s  \"%s\": {", listing->sections ? "\n  },\n" : "{\n", name);
  else fprintf(listing->out, note ? "%s%s (%s)\n" : "%s%s\n", before, name, note);
  listing->sections++;
  listing->lines = 0;
}

static void json_name(struct tt_listing *listing, const char *name)
{
  fprintf(listing->out, "%s    \"%s\": ", listing->lines++ ? ",\n" : "\n", name);
}

static void json_value(struct tt_listing *listing, const char *value)
{
  char escaped[6 * LINE_BYTES + 1];
  fprintf(listing->out, "\"%s\"", tt_json_text(value, escaped, sizeof escaped));
}

void tt_listing_line(struct tt_listing *listing, const char *name, const char *format, ...)
{
  char text[LINE_BYTES];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  if (!listing->json) {
    fprintf(listing->out, "  %-14s %s\n", name, text);
    return;
  }
  json_name(listing, name);
  json_value(listing, text);
}

void tt_listing_object(struct tt_listing *listing, const char *name, int n, const char *const *keys,
                       const char *const *values)
{
  if (!listing->json) return;
  json_name(listing, name);
  for (int i = 0; i < n; i++) {
    fprintf(listing->out, "%s\"%s\": ", i ? ", " : "{", keys[i]);
    json_value(listing, values[i]);
  }
  fprintf(listing->out, "}");
}

void tt_listing_end(struct tt_listing *listing)
{
  if (listing->json) fprintf(listing->out, "\n  }\n}\n");
}
