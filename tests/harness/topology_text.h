/* SPDX-License-Identifier: BSD-3-Clause */
/* The text of a topology. */
#ifndef TOPOLOGY_TEXT_H
#define TOPOLOGY_TEXT_H

#include <stdio.h>

#include "topo/topo.h"

/* Writes it in one form, whatever it was made from: reading that gives an equal topology, and printing that the
 * same text. Errors: tuttiSystemError: it cannot be written, or no memory. */
tuttiResult_t topology_print(const struct tt_topology *topology, FILE *out);

#endif
