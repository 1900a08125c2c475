/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/collectives.h"

#include <ctype.h>
#include <stdio.h>

const struct tt_kind tt_kinds[TT_COLLECTIVES] = {
    [TT_NO_COLLECTIVE] = {.called = "nothing"},
    [TT_PAIRS] = {.called = "Send/Recv"},
#define TT_KIND(value, called_, name_, in_, out_, from_, is_shared_, is_apart_)            \
  [value] = {.called = called_,                                                            \
             .name = name_,                                                                \
             .in = TT_COVER_##in_,                                                         \
             .out = TT_COVER_##out_,                                                       \
             .is_shared = is_shared_,                                                      \
             .is_apart = is_apart_,                                                        \
             .reduces = TT_FROM_##from_ == TT_FROM_ALL,                                    \
             .has_root = TT_COVER_##in_ == TT_COVER_ROOT || TT_COVER_##out_ == TT_COVER_ROOT, \
             .from = TT_FROM_##from_},
#include "base/collectives.def"
#undef TT_KIND
};

int tt_same_name(const char *a, const char *b)
{
  for (;; a++, b++) {
    while (*a == '_' || *a == '-') a++;
    while (*b == '_' || *b == '-') b++;
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return 0;
    if (!*a) return 1;
  }
}

int tt_kind_find(const char *name)
{
  for (int kind = 0; kind < TT_COLLECTIVES; kind++)
    if (tt_kinds[kind].name && tt_same_name(tt_kinds[kind].name, name)) return kind;
  return TT_NO_COLLECTIVE;
}

const char *tt_kind_names(char *text, size_t size)
{
  size_t used = 0;
  for (int kind = 0; kind < TT_COLLECTIVES && used < size; kind++)
    if (tt_kinds[kind].name)
      used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", tt_kinds[kind].name);
  return text;
}
