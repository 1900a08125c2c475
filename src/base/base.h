/* SPDX-License-Identifier: BSD-3-Clause */
/* The foundation that every folder may use: results and log, settings, time and time line,
 * allocation, threads, the description of a call, and the one process object. It includes nothing above it. */
#ifndef TT_BASE_H
#define TT_BASE_H

#include "base/alloc.h"
#include "base/call.h"
#include "base/collectives.h"
#include "base/host.h"
#include "base/log.h"
#include "base/process.h"
#include "base/settings.h"
#include "base/thread.h"
#include "base/time.h"
#include "base/timeline.h"
#include "tutti.h"

#endif
