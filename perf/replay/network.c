/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay.h"

#define LAYERS_MAX 16384
#define VALUES 13 /* distinct contributions of a rank; a sum of 150 ranks is then below 2,048, which fp16 has exactly */

static int complain(const char *path, int line, const char *what)
{
  fprintf(stderr, "train_replay: %s, line %d: %s\n", path, line, what);
  return 0;
}

static int table_read(struct network *network, FILE *file, const char *path)
{
  char line[1024];
  if (!fgets(line, sizeof line, file)) return complain(path, 1, "wanted names of columns, not the end");
  while (fgets(line, sizeof line, file)) {
    struct layer *layer = &network->layers[network->n];
    int index, where = network->n + 2;
    if (network->n == LAYERS_MAX) return complain(path, where, "wanted at most 16384 layers");
    if (sscanf(line, "%d,%127[^,],%zu,%lf,%lf", &index, layer->name, &layer->count, &layer->backward_us,
               &layer->forward_us) != 5 || index != network->n + 1)
      return complain(path, where, "wanted layer_index (1, 2, ...), name, params, bwd_time_us and fwd_time_us");
    network->n++;
  }
  return network->n > 0 || complain(path, 2, "wanted a layer, not the end");
}

static int gradients_allocate(struct network *network, int is_together)
{
  size_t total = 0;
  for (int l = 0; l < network->n; l++) total += network->layers[l].count;
  if (is_together && !(network->memory = calloc(total + 1, sizeof(float)))) return 0;
  float *next = network->memory;
  for (int l = 0; l < network->n; l++) {
    struct layer *layer = &network->layers[l];
    layer->gradient = is_together ? next : calloc(layer->count + 1, sizeof(float));
    if (!layer->gradient) return 0;
    if (is_together) next += layer->count;
  }
  return 1;
}

int network_create(struct network *network, const char *path, int is_together)
{
  memset(network, 0, sizeof *network);
  network->layers = calloc(LAYERS_MAX, sizeof *network->layers);
  FILE *file = fopen(path, "re");
  if (!file) fprintf(stderr, "train_replay: %s: %s\n", path, strerror(errno));
  int is_fine = file && network->layers && table_read(network, file, path);
  if (file) fclose(file);
  if (is_fine && !gradients_allocate(network, is_together)) is_fine = complain(path, 1, "no memory for gradients");
  if (!is_fine) network_destroy(network);
  return is_fine;
}

void network_destroy(struct network *network)
{
  for (int l = 0; l < network->n && !network->memory; l++) free(network->layers[l].gradient);
  free(network->memory);
  free(network->layers);
  memset(network, 0, sizeof *network);
}

/* Without the rank's own number. */
static int value_of(int layer, size_t i)
{
  return (int)(((size_t)layer * 5 + i) % VALUES);
}

void network_fill(const struct network *network, int rank)
{
  for (int l = 0; l < network->n; l++)
    for (size_t i = 0; i < network->layers[l].count; i++)
      network->layers[l].gradient[i] = (float)(value_of(l, i) + rank % 2);
}

void network_clear(const struct network *network)
{
  for (int l = 0; l < network->n; l++) memset(network->layers[l].gradient, 0, network->layers[l].count * sizeof(float));
}

int network_check(const struct network *network, int nranks, const char *who)
{
  for (int l = 0; l < network->n; l++) {
    struct layer *layer = &network->layers[l];
    for (size_t i = 0; i < layer->count; i++) {
      float right = nranks ? (float)(nranks * value_of(l, i) + nranks / 2) : 0;
      if (layer->gradient[i] == right) continue;
      fprintf(stderr, "train_replay: %s: layer %d (%s): element %zu of %zu is %.9g instead of %.9g\n", who, l + 1,
              layer->name, i, layer->count, (double)layer->gradient[i], (double)right);
      return 0;
    }
  }
  return 1;
}
