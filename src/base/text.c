/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/text.h"

#include <stdio.h>

const char *tt_bytes_text(uint64_t bytes, char text[TT_BYTES_TEXT_BYTES])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  double value = (double)bytes;
  int unit = 0;
  while (unit < 3 && value >= 1024) {
    value /= 1024;
    unit++;
  }
  snprintf(text, TT_BYTES_TEXT_BYTES, "%.4g %s", value, units[unit]);
  return text;
}

const char *tt_us_text(double us, char text[TT_US_BYTES])
{
  snprintf(text, TT_US_BYTES, "%.*f", us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0, us);
  return text;
}

const char *tt_json_text(const char *text, char *out, size_t size)
{
  size_t used = 0;
  for (size_t i = 0; text[i] && used + 7 <= size; i++) {
    unsigned char c = (unsigned char)text[i];
    if (c < 0x20 || c == 0x7f) used += (size_t)snprintf(out + used, size - used, "\\u%04x", c);
    else {
      if (c == '"' || c == '\\') out[used++] = '\\';
      out[used++] = c < 0x80 ? (char)c : '?';
    }
  }
  out[used] = 0;
  return out;
}
