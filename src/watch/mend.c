/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of control links closes again where ranks are lost and the others go on (fault_level): each rank links
 * itself with the next ones that are left. Else two parts of the survivors could be left between which no link leads.
 * The higher rank of a pair only knocks until the lower one dials, as that one may still have to learn of the losses. A
 * peer whose host refuses the connection has ended, and the next rank behind it is tried. */
#include "watch/private.h"

int tt_mend_is_due(const struct tt_watch *watch)
{
  if (!watch->own || !atomic_load_explicit(&watch->page.head->goes_on, memory_order_relaxed)) return 0;
  for (int rank = 0; rank < watch->nranks; rank++)
    if (tt_page_lost(&watch->page, rank)) return 1;
  return 0;
}

static struct tt_control_link *link_with(struct tt_control *control, int peer)
{
  for (int i = 0; i < control->nlinks; i++)
    if (control->links[i].peer == peer) return &control->links[i];
  return NULL;
}

/* A new one, or one of an earlier mending whose peer has left; NULL: there is none. */
static struct tt_control_link *link_find(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  for (int i = 0; i < control->nlinks; i++) {
    struct tt_control_link *link = &control->links[i];
    if (link->slot || !tt_has_left(watch, link->peer)) continue;
    tt_link_destroy(link);
    tt_wipe(link, sizeof *link);
    for (int rank = 0; control->words && rank < watch->nranks; rank++) control->words[rank].told[i] = 0;
    return link;
  }
  return control->nlinks < TT_CONTROL_MOST ? &control->links[control->nlinks++] : NULL;
}

static void begin(struct tt_watch *watch, int peer)
{
  struct tt_control_link *link = link_find(watch);
  if (!link) return;
  *link = (struct tt_control_link){.heard_ns = watch->clock_ns};
  if (tt_link_create(watch, link, peer, UINT64_MAX) != tuttiSuccess) tt_link_end(link, tt_last_sentence());
  else if (link->dialer) tt_dialer_limit(link->dialer, watch->limits.unreachable_ns); /* it has left this watch */
}

void tt_mend_expect(struct tt_watch *watch, int peer)
{
  if (!watch->own || !atomic_load_explicit(&watch->page.head->goes_on, memory_order_relaxed)) return;
  if (!link_with(&watch->control, peer) && !tt_has_left(watch, peer)) begin(watch, peer);
}

static void advance(struct tt_control_link *link)
{
  if (link->slot || link->state != TT_CONTROL_AWAITED) return;
  enum tt_knock knock = tt_knock(link);
  tuttiResult_t result = tt_control_advance(link);
  if (result == tuttiSuccess) {
    tt_knock_end(link);
    return;
  }
  if (knock != TT_KNOCK_NONE) tt_link_hear(link); /* its host is there, so this one is not cut off */
  if (knock == TT_KNOCK_REFUSED) tt_link_end(link, "nothing listens at its address any more");
  else if (result != tuttiInProgress) tt_link_end(link, tt_last_sentence());
}

void tt_mend_tick(struct tt_watch *watch)
{
  int peers[TT_CONTROL_LINKS], n = 0;
  if (tt_mend_is_due(watch)) n = tt_control_peers(watch->rank, watch->nranks, watch, peers);
  for (int i = 0; i < n; i++)
    if (!link_with(&watch->control, peers[i])) begin(watch, peers[i]);
  for (int i = 0; i < watch->control.nlinks; i++) advance(&watch->control.links[i]);
}
