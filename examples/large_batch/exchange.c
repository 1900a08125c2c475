/* SPDX-License-Identifier: BSD-3-Clause */
#include "exchange.h"

#include "network.h"

tuttiResult_t elastic_exchange(float *x, float *centre, float *d, size_t n, float alpha, tuttiComm_t comm)
{
  for (size_t i = 0; i < n; i++) {
    d[i] = alpha * (x[i] - centre[i]);
    x[i] -= d[i];
  }
  tuttiResult_t result = tuttiAllReduce(d, d, n, tuttiFloat32, tuttiSum, comm, NULL);
  for (size_t i = 0; result == tuttiSuccess && i < n; i++) centre[i] += d[i];
  return result;
}

int gossip_partner(int rank, int nranks, uint64_t seed)
{
  int order[GOSSIP_RANKS_MAX] = {0}, place = 0;
  for (int i = 0; i < nranks; i++) order[i] = i;
  for (int i = nranks - 1; i > 0; i--) {
    int j = (int)(random_next(&seed) % (uint64_t)(i + 1)), other = order[i];
    order[i] = order[j];
    order[j] = other;
  }
  while (place < nranks && order[place] != rank) place++;
  return (place ^ 1) < nranks ? order[place ^ 1] : -1;
}

tuttiResult_t gossip_exchange(float *x, float *y, size_t n, int partner, tuttiComm_t comm)
{
  tuttiResult_t sent, received, result = tuttiGroupStart();
  if (result != tuttiSuccess) return result;
  sent = tuttiSend(x, n, tuttiFloat32, partner, comm, NULL);
  received = tuttiRecv(y, n, tuttiFloat32, partner, comm, NULL);
  result = tuttiGroupEnd();
  if (sent != tuttiSuccess) return sent;
  if (received != tuttiSuccess) return received;
  for (size_t i = 0; result == tuttiSuccess && i < n; i++) x[i] = (x[i] + y[i]) / 2;
  return result;
}
