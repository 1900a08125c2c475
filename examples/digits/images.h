/* SPDX-License-Identifier: BSD-3-Clause */
/* The images: 8 x 8 pixels from 0 to 1, and which digit each one shows. */
#ifndef DIGITS_IMAGES_H
#define DIGITS_IMAGES_H

enum { PIXELS = 64, CLASSES = 10, IMAGES_MAX = 2000 };

struct images {
  int count;
  float pixel[IMAGES_MAX][PIXELS];
  int digit[IMAGES_MAX];
};

/* Reads a file of lines "64 pixels from 0 to 16, the digit". Returns NULL and says why
 * on stderr if that fails; the caller frees. */
struct images *images_read(const char *file_name);

#endif
