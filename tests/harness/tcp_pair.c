/* SPDX-License-Identifier: BSD-3-Clause */
#include "tcp_pair.h"

#include <dirent.h>
#include <string.h>
#include <unistd.h>

static int is_there(const struct tt_address *where)
{
  int fd = socket(where->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  int bound = bind(fd, &where->any, where->len) == 0;
  close(fd);
  return bound;
}

int tcp_pair_prepare(struct tcp_pair *pair, const char *where)
{
  memset(pair, 0, sizeof *pair);
  struct tt_credentials credentials = {.epoch = 3};
  if (tt_auth_init() != tuttiSuccess) return -1;
  tt_random(credentials.key, sizeof credentials.key);
  tt_random(credentials.job, sizeof credentials.job);
  for (int i = 0; i < 2; i++) {
    struct tcp_end *end = &pair->end[i];
    if (tt_settings_load(&end->settings) != tuttiSuccess) return -1;
    if (tt_address_parse(&end->where, where) != tuttiSuccess || !is_there(&end->where)) return -1;
    end->settings.init_timeout_ms = 20000;
    end->credentials = credentials;
    end->spec.nranks = 2;
    end->spec.rank = i;
    end->spec.lanes = TCP_PAIR_LANES;
    end->spec.settings = &end->settings;
    end->spec.credentials = &end->credentials;
    end->spec.hosts = pair->hosts;
    end->spec.pids = pair->pids;
    pair->hosts[i] = 1;
    pair->pids[i] = (int32_t)getpid();
  }
  return 0;
}

int tcp_pair_start(struct tcp_pair *pair)
{
  for (int i = 0; i < 2; i++) {
    struct tcp_end *end = &pair->end[i];
    if (tt_listener_open(&end->spec.ip_listener, &end->where) != tuttiSuccess) return -1;
    if (tt_transport_tcp.create(&end->transport, &end->spec, pair->peer_infos[i]) != tuttiSuccess) return -1;
  }
  for (int i = 0; i < 2; i++)
    if (tt_transport_tcp.connect(pair->end[i].transport, pair->peer_infos, TT_TRANSPORT_PEER_INFO_BYTES) !=
        tuttiSuccess)
      return -1;
  return 0;
}

int tcp_pair_open(struct tcp_pair *pair, int lane, struct tt_link *links[2])
{
  tuttiResult_t result[2] = {tuttiInProgress, tuttiInProgress};
  while (result[0] == tuttiInProgress || result[1] == tuttiInProgress) {
    for (int i = 0; i < 2; i++) {
      if (result[i] == tuttiInProgress)
        result[i] = tt_transport_tcp.open(pair->end[i].transport, 1 - i, lane, &links[i]);
      if (result[i] != tuttiInProgress && result[i] != tuttiSuccess) return -1;
    }
    sched_yield();
  }
  return 0;
}

void tcp_pair_destroy(struct tcp_pair *pair)
{
  for (int i = 0; i < 2; i++) {
    tt_transport_tcp.destroy(pair->end[i].transport);
    tt_listener_close(pair->end[i].spec.ip_listener);
    pair->end[i].transport = NULL;
    pair->end[i].spec.ip_listener = NULL;
  }
}

int descriptors_open(void)
{
  DIR *folder = opendir("/proc/self/fd");
  int count = 0;
  while (folder && readdir(folder)) count++;
  if (folder) closedir(folder);
  return count;
}
