/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm would be chosen on a machine that need not be at hand. */
#include "tuner/explain.h"

#include "api/check.h"
#include "api/elsewhere.h"
#include "tuner/wish.h"
#include "tutti_tools.h"

tuttiResult_t tuttiExplain(const tuttiExplainRequest_t *request, FILE *out)
{
  struct tt_elsewhere *place;
  if (!request) return tt_null("request");
  if (!out) return tt_null("out");
  if (!request->collective) return tt_null("collective");
  int collective = tt_wish_collective(request->collective);
  if (collective == TT_NO_COLLECTIVE)
    return tt_fail(tuttiInvalidArgument, "there is no collective \"%.40s\": take one of all_reduce, reduce, broadcast, "
                   "reduce_scatter, all_gather, all_to_all, gather, scatter", request->collective);
  tuttiResult_t result = tt_elsewhere_make(&place, request);
  if (result != tuttiSuccess) return result;
  result = tt_explain_print(out, collective, request->bytes, &place->settings, &place->tuning);
  tt_elsewhere_destroy(place);
  return result;
}
