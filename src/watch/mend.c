/* SPDX-License-Identifier: BSD-3-Clause */
/* The ring of control links closes again where ranks have left and the others go on (fault_level): each rank links
 * itself with the next ones that are left. Else two parts of the survivors could be left between which no link leads.
 *
 * The lower rank of a pair dials, and the higher one only knocks until that comes, as the lower one may still have to
 * learn who is lost. Such a link says little about its peer: it may end because the peer takes this rank for lost, has
 * no room yet, or because descriptors lack here. So it is begun anew, and only two things count against the peer:
 * silence, as on all links, for which an answer of its host is no cure, and connections that its host refuses, as its
 * process has ended then. */
#include "watch/private.h"

#define SETTLE_NS 50000000u /* nothing is mended while ranks leave one after the other */
#define AGAIN_NS 250000000u /* from the end of a link to the next attempt, */
#define ERROR_NS 750000000u /* and longer after an error of this rank */

static int goes_on(const struct tt_watch *watch)
{
  return watch->own && atomic_load_explicit(&watch->page.head->goes_on, memory_order_relaxed);
}

static int count_left(const struct tt_watch *watch)
{
  int n = 0;
  for (int rank = 0; rank < watch->nranks; rank++) n += tt_has_left(watch, rank);
  return n;
}

int tt_mend_is_due(const struct tt_watch *watch)
{
  return goes_on(watch) && count_left(watch) > 0;
}

int tt_mend_ignores(const struct tt_watch *watch, int peer)
{
  return goes_on(watch) && tt_is_lost(watch, peer);
}

static struct tt_control_link *link_with(struct tt_control *control, int peer)
{
  for (int i = 0; i < control->nlinks; i++)
    if (control->links[i].peer == peer) return &control->links[i];
  return NULL;
}

/* A new one, or one of an earlier mending whose peer has left; NULL: there is no room. */
static struct tt_control_link *link_find(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  for (int i = 0; i < control->nlinks; i++)
    if (!control->links[i].slot && tt_has_left(watch, control->links[i].peer)) return &control->links[i];
  return control->nlinks < TT_CONTROL_MOST ? &control->links[control->nlinks++] : NULL;
}

/* The link is begun anew, whatever it was before. */
static void link_make(struct tt_watch *watch, struct tt_control_link *link, int peer, uint64_t heard_ns)
{
  if (link->watch) tt_link_destroy(link);
  tt_wipe(link, sizeof *link);
  *link = (struct tt_control_link){.heard_ns = heard_ns};
  if (tt_link_create(watch, link, peer, UINT64_MAX) != tuttiSuccess) tt_link_end(link, tt_last_sentence());
}

void tt_mend_expect(struct tt_watch *watch, int peer)
{
  if (!watch->ready || !goes_on(watch) || link_with(&watch->control, peer) || tt_has_left(watch, peer)) return;
  struct tt_control_link *link = link_find(watch);
  if (link) link_make(watch, link, peer, watch->clock_ns);
}

static void lose(struct tt_control_link *link)
{
  char text[TT_RANK_TEXT_BYTES];
  tt_log(TT_LOG_INFO, "%s has ended: nothing listens at its address any more",
         tt_watch_rank_text(link->watch, link->peer, text, sizeof text));
  tt_lost_set(link->watch, link->peer, TT_LOST_CONNECTION);
}

static void await(struct tt_control_link *link)
{
  struct tt_watch *watch = link->watch;
  enum tt_knock knock = tt_knock(link);
  tuttiResult_t result = tt_control_advance(link);
  if (result == tuttiSuccess) tt_knock_end(link);
  else if (result != tuttiInProgress) { /* for want of descriptors: it would be logged with each attempt */
    tt_link_end(link, tt_last_sentence());
    link->ended_ns += ERROR_NS;
  }
  if (result != tuttiInProgress || knock == TT_KNOCK_NONE) return;
  if (!watch->peers[link->peer].local) /* this host is not cut off; the peer may be stopped */
    atomic_fetch_add_explicit(&watch->own->heard, 1, memory_order_relaxed);
  if (knock == TT_KNOCK_ANSWERED) link->refused_ns = 0;
  else if (!link->refused_ns) link->refused_ns = watch->clock_ns;
  else if (watch->clock_ns - link->refused_ns >= TT_GRACE_NS) lose(link);
}

static void advance(struct tt_watch *watch, struct tt_control_link *link)
{
  if (link->slot) return;
  if (tt_has_left(watch, link->peer)) {
    if (link->state == TT_CONTROL_AWAITED) tt_link_end(link, "its rank has left");
  } else if (link->state == TT_CONTROL_AWAITED) {
    await(link);
  } else if (link->state == TT_CONTROL_ENDED && goes_on(watch) && watch->clock_ns >= link->ended_ns + AGAIN_NS) {
    link_make(watch, link, link->peer, link->heard_ns);
  }
}

void tt_mend_tick(struct tt_watch *watch)
{
  struct tt_control *control = &watch->control;
  int peers[TT_CONTROL_LINKS], n = 0, nleft = watch->ready && goes_on(watch) ? count_left(watch) : 0;
  if (nleft != control->nleft) control->left_ns = watch->clock_ns;
  control->nleft = nleft;
  if (nleft && watch->clock_ns - control->left_ns >= SETTLE_NS)
    n = tt_control_peers(watch->rank, watch->nranks, watch, peers);
  for (int i = 0; i < n; i++) {
    struct tt_control_link *link = link_with(control, peers[i]) ? NULL : link_find(watch);
    if (link) link_make(watch, link, peers[i], watch->clock_ns);
  }
  for (int i = 0; i < control->nlinks; i++) advance(watch, &control->links[i]);
}
