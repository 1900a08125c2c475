/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests put around each transport: nothing, and the decorators with rules that any traffic must survive. */
#ifndef DECORATIONS_H
#define DECORATIONS_H

static const struct {
  const char *name, *trace, *fault; /* the settings TUTTI_TRACE and TUTTI_FAULT; NULL: not set */
} decorations[] = {
    {"", NULL, NULL},
    {" + trace", "/dev/null", NULL},
    {" + fault", NULL,
     "nth=5,action=delay:2ms;action=short:4096;side=recv,nth=7,action=delay:1ms;side=recv,action=short:240"},
};

enum { DECORATIONS = sizeof decorations / sizeof *decorations };

#endif
