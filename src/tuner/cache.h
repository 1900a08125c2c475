/* SPDX-License-Identifier: BSD-3-Clause */
/* Measured corrections of pairs of ranks, and choices that jobs have learnt, kept for later communicators: one small
 * text file for each host.
 *
 *   tutti cache 5
 *   machine host NAME cpu "MODEL" cores N version 0.1.0
 *   link kind cache transport shm alpha 1 beta -1 date 2026-11-24     powers of two, as in struct tt_correction
 *   learnt key 00f0.. ranks 4 nodes 1 cores 2 transport shm collective all_reduce width 2 class 27 memory malloc
 *          algo ring middle - radix 0 block 8192 ns 9 date 2026-11-24
 *
 * Learnt choices, each on one line, are in the file of rank 0's host. The key stands for all on which they depend
 * beside the machine (comm/price.c): lines with other keys are of other communicators. Ranks, nodes, cores of a
 * node, the transport between most ranks and dates (UTC, of the measurement) are for readers and for `tutti tune
 * --from-cache`.
 *
 * The file lies in the folder TUTTI_CACHE, else in $XDG_CACHE_HOME/tutti, else in $HOME/.cache/tutti, and is named by
 * the host, and by a hash of machine-id and TUTTI_HOSTID, which tell hosts of one name apart, and of
 * TUTTI_SOCKET_IFNAME and TUTTI_SOCKET_FAMILY, which decide the way of messages: hosts may share a home directory, and
 * a boot changes nothing. It is a cache: if anything is wrong with it, pairs are measured and choices learnt again, and
 * INFO says why. */
#ifndef TT_CACHE_H
#define TT_CACHE_H

#include "tuner/tuner.h"

#define TT_CACHE_VERSION 5
#define TT_CACHE_LEARNT 128 /* the oldest go */
#define TT_CACHE_LINES 32
#define TT_CACHE_PATH 512
#define TT_CACHE_DATE 11

struct tt_cache {
  int n;
  struct tt_cache_line {
    enum tt_link_kind kind;
    char transport[TT_PROFILE_NAME];
    struct tt_correction correction;
    char date[TT_CACHE_DATE];
  } lines[TT_CACHE_LINES];
  int nlearnt;
  struct tt_cache_learnt {
    uint64_t key;
    int32_t ranks, nodes, cores;
    char transport[TT_PROFILE_NAME];
    struct tt_learnt learnt;
    char date[TT_CACHE_DATE]; /* "" in a line that is learnt now */
  } learnt[TT_CACHE_LEARNT];
};

/* 1 unless TUTTI_CACHE is none: then nothing is measured, nor read. */
int tt_cache_wanted(const struct tt_settings *settings);

/* The path of the file. 0: there is none, because TUTTI_CACHE is none or there is no home directory. */
int tt_cache_path(char path[TT_CACHE_PATH], const struct tt_settings *settings);

/* Reads the file. *cache is empty if there is none, or if it is of another machine or version of the library, broken,
 * of another user, or others may write to it. */
void tt_cache_load(struct tt_cache *cache, const struct tt_settings *settings);

/* Writes the file, and makes its folder and the one above that. The file is replaced as a whole or stays as before. A
 * failure is no error. */
void tt_cache_store(const struct tt_cache *cache, const struct tt_settings *settings);

/* TT_CORRECTION_NONE if nothing is known. date: when it was measured, "" if nothing is known; NULL: not asked. */
struct tt_correction tt_cache_get(const struct tt_cache *cache, enum tt_link_kind kind, const char *transport,
                                  const char **date);

/* Adds what is learnt of a shape behind all others, and takes away what was known of it. */
void tt_cache_learn(struct tt_cache *cache, const struct tt_cache_learnt *line);

/* Replaces the known correction by one of today. TT_CORRECTION_NONE, or a correction for which there is no room, is
 * left out. */
void tt_cache_put(struct tt_cache *cache, enum tt_link_kind kind, const char *transport,
                  struct tt_correction correction);

#endif
