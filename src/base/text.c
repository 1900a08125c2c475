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
