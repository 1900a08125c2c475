/* SPDX-License-Identifier: BSD-3-Clause */
#include "images.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns 1 for an image, 0 at the end of the file, -1 for anything else. */
static int read_image(FILE *file, float *pixel, int *digit)
{
  for (int i = 0; i < PIXELS; i++) {
    int value;
    int found = fscanf(file, "%d,", &value);
    if (found == EOF && i == 0) return 0;
    if (found != 1 || value < 0 || value > 16) return -1;
    pixel[i] = (float)value / 16;
  }
  return fscanf(file, "%d", digit) == 1 && *digit >= 0 && *digit < CLASSES ? 1 : -1;
}

struct images *images_read(const char *file_name)
{
  FILE *file = fopen(file_name, "r");
  if (!file) {
    perror(file_name);
    return NULL;
  }
  struct images *images = calloc(1, sizeof *images);
  int more = images ? 1 : -1;
  while (more == 1 && images->count < IMAGES_MAX) {
    more = read_image(file, images->pixel[images->count], &images->digit[images->count]);
    if (more == 1) images->count++;
  }
  fclose(file);
  if (more == 0) return images;
  fprintf(stderr, "%s: image %d is not 64 pixels and a digit\n", file_name, images ? images->count + 1 : 0);
  free(images);
  return NULL;
}
