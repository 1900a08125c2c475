/* SPDX-License-Identifier: BSD-3-Clause */
/* Floating-point environments that a calling thread may have and that change results or trap. */
#ifndef STRANGE_H
#define STRANGE_H

/* How many there are; number 0 is the ordinary one, number 1 rounds up. */
#define STRANGE 7

void strange_enter(int which);

/* Back to the ordinary one. 1 if environment `which` still was as it had been entered, but for sticky flags. */
int strange_leave(int which);

#endif
