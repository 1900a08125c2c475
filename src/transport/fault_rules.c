/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "base/scan.h"
#include "transport/fault_private.h"

#define FIELD_BYTES 64

/* Decimal digits only. */
static int number(const char *text, uint64_t high, uint64_t *out)
{
  const char *end = text;
  *out = tt_digits(&end, high);
  return end > text && !*end && *out <= high ? 0 : -1;
}

/* "5ms" in nanoseconds, an hour at most. */
static int duration(const char *text, uint64_t *out)
{
  static const struct {
    const char *name;
    uint64_t ns;
  } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
  char digits[FIELD_BYTES];
  size_t n = strspn(text, "0123456789");
  uint64_t count;
  memcpy(digits, text, n);
  digits[n] = 0;
  for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
    if (strcmp(text + n, units[i].name) == 0 && number(digits, 3600000000000u / units[i].ns, &count) == 0) {
      *out = count * units[i].ns;
      return 0;
    }
  return -1;
}

static const char *action_parse(struct tt_fault_rule *rule, char *text)
{
  static const char *const plain[] = {
      [TT_FAULT_DROP] = "drop", [TT_FAULT_CORRUPT] = "corrupt", [TT_FAULT_KILL] = "kill", [TT_FAULT_STOP] = "stop"};
  for (int i = TT_FAULT_DROP; i <= TT_FAULT_STOP; i++)
    if (strcmp(text, plain[i]) == 0) {
      rule->action = (enum tt_fault_action)i;
      return NULL;
    }
  char *colon = strchr(text, ':');
  if (colon) *colon = 0;
  if (strcmp(text, "delay") == 0) {
    rule->action = TT_FAULT_DELAY;
    if (colon && duration(colon + 1, &rule->value) == 0) return NULL;
    return "delay wants a time of at most an hour as in delay:5ms";
  }
  if (strcmp(text, "short") == 0) {
    rule->action = TT_FAULT_SHORT;
    if (!colon) rule->value = 16;
    else if (number(colon + 1, 1u << 30, &rule->value) != 0) rule->value = 0;
    return rule->value && rule->value % 16 == 0 ? NULL : "short wants a multiple of 16 bytes as in short:16";
  }
  return "action is one of delay:TIME, short:BYTES, drop, corrupt, kill, stop";
}

static const char *field_parse(struct tt_fault_rule *rule, char *field)
{
  char *value = strchr(field, '=');
  if (!value) return "each field is name=value";
  *value++ = 0;
  uint64_t n = 0;
  if (strcmp(field, "action") == 0) return action_parse(rule, value);
  if (strcmp(field, "side") == 0) {
    rule->side = strcmp(value, "recv") == 0 ? TT_FAULT_RECV : TT_FAULT_SEND;
    return rule->side == TT_FAULT_RECV || strcmp(value, "send") == 0 ? NULL : "side is send or recv";
  }
  if (number(value, INT32_MAX, &n) != 0) return "rank, peer, lane and nth are numbers";
  if (strcmp(field, "rank") == 0) rule->rank = (int)n;
  else if (strcmp(field, "peer") == 0) rule->peer = (int)n;
  else if (strcmp(field, "lane") == 0) rule->lane = (int)n;
  else if (strcmp(field, "nth") == 0 && n) rule->nth = n;
  else return "fields are rank, peer, lane, side, nth (from 1) and action";
  return NULL;
}

/* NULL, or what is wrong. */
static const char *rule_parse(struct tt_fault_rule *rule, const char *text, size_t len)
{
  *rule = (struct tt_fault_rule){.rank = -1, .peer = -1, .lane = -1};
  for (size_t at = 0; at <= len;) {
    char field[FIELD_BYTES];
    size_t n = 0;
    while (at + n < len && text[at + n] != ',') n++;
    if (n >= sizeof field) return "a field is too long";
    memcpy(field, text + at, n);
    field[n] = 0;
    const char *wrong = field_parse(rule, field);
    if (wrong) return wrong;
    at += n + 1;
  }
  return rule->action == TT_FAULT_NONE ? "there is no action" : NULL;
}

tuttiResult_t tt_fault_rules_parse(struct tt_fault_rules *rules, const char *text)
{
  struct tt_fault_rules parsed = {.n = 0};
  while (*text) {
    size_t len = strcspn(text, ";");
    const char *wrong = "there are too many rules";
    if (parsed.n < TT_FAULT_RULES) wrong = rule_parse(&parsed.rule[parsed.n++], text, len);
    if (wrong)
      return tt_fail(tuttiInvalidArgument, "TUTTI_FAULT rule \"%.*s\": %s", len < 200 ? (int)len : 200, text, wrong);
    text += len;
    if (*text) text++;
  }
  *rules = parsed;
  return tuttiSuccess;
}
