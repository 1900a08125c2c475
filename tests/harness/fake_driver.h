/* SPDX-License-Identifier: BSD-3-Clause */
/* Loads the driver double (tests/cuda) into a test of the library's own code, and joins it. */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "fake_cuda.h"

/* Loads the driver and starts it, as a program does, so that whoever looks for one finds it; NULL if that fails. It
 * stays loaded. */
const struct fake_cuda *fake_driver_load(void);

/* Loads it, and joins as a communicator does; 0 if that fails. */
int fake_driver_begin(void);

/* Leaves. 1 if nothing was left behind: no memory, pinned or registered memory, streams, events, modules, contexts
 * or work, and there was no breach; else tells what. */
int fake_driver_end(void);

/* The same for who has joined and left by himself. */
int fake_driver_is_clean(void);

#endif
