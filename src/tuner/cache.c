/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/cache.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"

#define TEXT_BYTES 57344 /* longer than any such file */

/* ---- lines ---- */

static void today_write(char date[TT_CACHE_DATE])
{
  time_t now = time(NULL);
  struct tm day;
  strftime(date, TT_CACHE_DATE, "%Y-%m-%d", gmtime_r(&now, &day));
}

struct tt_correction tt_cache_get(const struct tt_cache *cache, enum tt_link_kind kind, const char *transport,
                                  const char **date)
{
  int i = 0;
  while (i < cache->n && (cache->lines[i].kind != kind || strcmp(cache->lines[i].transport, transport) != 0)) i++;
  if (date) *date = i < cache->n ? cache->lines[i].date : "";
  return i < cache->n ? cache->lines[i].correction : TT_CORRECTION_NONE;
}

static void line_put(struct tt_cache *cache, const struct tt_cache_line *line)
{
  int i = 0;
  while (i < cache->n &&
         (cache->lines[i].kind != line->kind || strcmp(cache->lines[i].transport, line->transport) != 0))
    i++;
  if (i == TT_CACHE_LINES) return;
  if (i == cache->n) cache->n++;
  cache->lines[i] = *line;
}

void tt_cache_put(struct tt_cache *cache, enum tt_link_kind kind, const char *transport,
                  struct tt_correction correction)
{
  struct tt_cache_line line = {.kind = kind, .correction = correction};
  if (!tt_correction_known(correction)) return;
  snprintf(line.transport, sizeof line.transport, "%s", transport);
  today_write(line.date);
  line_put(cache, &line);
}

void tt_cache_learn(struct tt_cache *cache, const struct tt_cache_learnt *line)
{
  const struct tt_learnt *learnt = &line->learnt;
  int n = 0;
  for (int i = 0; i < cache->nlearnt; i++) {
    const struct tt_cache_learnt *has = &cache->learnt[i];
    int is_same = has->key == line->key && has->learnt.collective == learnt->collective &&
                  has->learnt.width == learnt->width && has->learnt.size_class == learnt->size_class &&
                  has->learnt.memory == learnt->memory;
    if (!is_same) cache->learnt[n++] = *has;
  }
  if (n == TT_CACHE_LEARNT) memmove(&cache->learnt[0], &cache->learnt[1], (size_t)--n * sizeof cache->learnt[0]);
  cache->learnt[n] = *line;
  if (!line->date[0]) today_write(cache->learnt[n].date);
  n++;
  cache->nlearnt = n;
}

/* ---- where ---- */

int tt_cache_wanted(const struct tt_settings *settings)
{
  return strcmp(settings->cache, "none") != 0;
}

/* 0: there is none. */
static int folder_find(char folder[TT_CACHE_PATH], const struct tt_settings *settings)
{
  const char *cache = tt_env("XDG_CACHE_HOME"), *home = tt_env("HOME");
  int n = -1;
  if (settings->cache[0]) n = snprintf(folder, TT_CACHE_PATH, "%s", settings->cache);
  else if (cache && cache[0] == '/') n = snprintf(folder, TT_CACHE_PATH, "%s/tutti", cache);
  else if (home && home[0] == '/') n = snprintf(folder, TT_CACHE_PATH, "%s/.cache/tutti", home);
  return n > 0 && n < TT_CACHE_PATH;
}

int tt_cache_path(char path[TT_CACHE_PATH], const struct tt_settings *settings)
{
  char folder[TT_CACHE_PATH], host[TT_HOST_NAME_BYTES];
  if (!tt_cache_wanted(settings) || !folder_find(folder, settings)) return 0;
  tt_host_name(host);
  for (char *at = host; *at; at++)
    if (!isalnum((unsigned char)*at) && *at != '-' && *at != '_' && (*at != '.' || at == host)) *at = '_';
  uint64_t hash = tt_text_hash(tt_machine_id(), settings->host_id);
  hash = tt_text_hash(tt_text_hash(hash, "\n"), settings->socket_ifname);
  hash = hash * 31 + (uint64_t)settings->socket_family;
  int n = snprintf(path, TT_CACHE_PATH, "%s/%s-%016llx", folder, host, (unsigned long long)hash);
  return n > 0 && n + 8 < TT_CACHE_PATH; /* and of the temporary file */
}

/* Makes the folder of `path` and the one above it, no more: a home directory that is missing stays so. */
static void folders_make(const char *path)
{
  char folder[TT_CACHE_PATH], above[TT_CACHE_PATH];
  snprintf(folder, sizeof folder, "%s", path);
  *strrchr(folder, '/') = 0;
  snprintf(above, sizeof above, "%s", folder);
  char *last = strrchr(above, '/');
  if (last) {
    *last = 0;
    mkdir(above, 0700); /* an error is seen when the file is made */
  }
  mkdir(folder, 0700);
}

/* ---- text ---- */

/* Prints the lines that say which machine and version the file is of. */
static int head_print(char *text, size_t size)
{
  char host[TT_HOST_NAME_BYTES], cpu[TT_PROFILE_TEXT];
  tt_host_name(host);
  tt_host_cpu(cpu, sizeof cpu);
  return snprintf(text, size, "tutti cache %d\nmachine host %s cpu \"%s\" cores %ld version %d.%d.%d\n",
                  TT_CACHE_VERSION, host, cpu, sysconf(_SC_NPROCESSORS_ONLN), TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH);
}

/* The algorithm of that name; -1: there is none. */
static int algo_find(const char *name, int collective)
{
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == collective && strcmp(tt_algos[a].name, name) == 0) return a;
  return -1;
}

static int learnt_read(struct tt_cache *cache, const char *line)
{
  char collective[24], memory[8], algo[48], middle[48], date[TT_CACHE_DATE], transport[TT_PROFILE_NAME];
  unsigned long long key;
  unsigned ranks, nodes, cores, width, size_class, radix, block;
  long long ns;
  int len = -1;
  int n = sscanf(line,
                 "learnt key %16llx ranks %7u nodes %7u cores %7u transport %47s collective %23s width %2u class %2u "
                 "memory %7s algo %47s middle %47s radix %5u block %10u ns %18lld date %10[0-9-]%n",
                 &key, &ranks, &nodes, &cores, transport, collective, &width, &size_class, memory, algo,
                 middle, &radix, &block, &ns, date, &len);
  if (n != 15 || len < 0 || line[len]) return 0;
  int kind = tt_kind_find(collective), of = 0;
  while (of < TT_MEMORIES && strcmp(memory, tt_memory_names[of]) != 0) of++;
  int chosen = kind == TT_NO_COLLECTIVE ? -1 : algo_find(algo, kind);
  int between = chosen < 0 || !strcmp(middle, "-") ? -1 : algo_find(middle, kind);
  if (chosen < 0 || (between < 0 && strcmp(middle, "-") != 0) || radix > UINT16_MAX) return 0;
  struct tt_cache_learnt learnt = {
      .key = key,
      .ranks = (int32_t)ranks,
      .nodes = (int32_t)nodes,
      .cores = (int32_t)cores,
      .learnt = {.collective = (uint8_t)kind,
                 .size_class = (uint8_t)size_class,
                 .width = (uint8_t)width,
                 .memory = (uint8_t)of,
                 .ns = ns,
                 .choice = {(uint8_t)chosen, (int8_t)between, (uint16_t)radix, block}}};
  if (!tt_learnt_valid(&learnt.learnt)) return 0;
  snprintf(learnt.transport, sizeof learnt.transport, "%s", transport);
  snprintf(learnt.date, sizeof learnt.date, "%s", date);
  tt_cache_learn(cache, &learnt);
  return 1;
}

static int line_read(struct tt_cache *cache, const char *text)
{
  struct tt_cache_line line;
  char kind[8];
  int alpha, beta, len = -1, k = 0;
  if (strncmp(text, "learnt ", 7) == 0) return learnt_read(cache, text);
  int n = sscanf(text, "link kind %7s transport %47s alpha %3d beta %3d date %10[0-9-]%n", kind, line.transport, &alpha,
                 &beta, line.date, &len);
  if (n != 5 || len < 0 || text[len] || cache->n == TT_CACHE_LINES) return 0;
  while (k < TT_LINK_KINDS && strcmp(kind, tt_link_names[k]) != 0) k++;
  if (k == TT_LINK_KINDS || abs(alpha) > TT_CORRECTION_MOST || abs(beta) > TT_CORRECTION_MOST) return 0;
  line.kind = (enum tt_link_kind)k;
  line.correction = (struct tt_correction){(int8_t)alpha, (int8_t)beta};
  line_put(cache, &line);
  return 1;
}

/* Returns NULL, or why the text was not read. */
static const char *text_read(struct tt_cache *cache, char *text)
{
  char head[1024];
  int len = head_print(head, sizeof head);
  if (strncmp(text, head, (size_t)len) != 0) return "it is of another machine or version";
  for (char *line = text + len, *end; *line; line = end + 1) {
    end = strchr(line, '\n');
    if (!end) return "it is cut off";
    *end = 0;
    if (!line_read(cache, line)) return "a line of it is broken";
  }
  return NULL;
}

/* ---- the file ---- */

/* Returns NULL, or why the file was not read; "" if there is none. */
static const char *file_read(char text[TEXT_BYTES], const char *path)
{
  struct stat status;
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) return errno == ENOENT ? "" : strerror(errno);
  const char *why = NULL;
  ssize_t len = 0;
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) why = "it is no file";
  else if (status.st_uid != geteuid()) why = "it is another user's";
  else if (status.st_mode & 022) why = "others may write to it";
  else if ((len = read(fd, text, TEXT_BYTES - 1)) < 0) why = strerror(errno);
  else if (len == TEXT_BYTES - 1 || memchr(text, 0, (size_t)len)) why = "it is no such text";
  close(fd);
  text[len > 0 ? len : 0] = 0;
  return why;
}

void tt_cache_load(struct tt_cache *cache, const struct tt_settings *settings)
{
  char path[TT_CACHE_PATH], text[TEXT_BYTES];
  *cache = (struct tt_cache){.n = 0};
  if (!tt_cache_path(path, settings)) return;
  const char *why = file_read(text, path);
  if (!why) why = text_read(cache, text);
  if (!why) return;
  if (*why) tt_log(TT_LOG_INFO, "%s is not used: %s", path, why);
  cache->n = cache->nlearnt = 0;
}

static int learnt_print(const struct tt_cache_learnt *line, char *text, size_t size)
{
  const struct tt_learnt *learnt = &line->learnt;
  const struct tt_choice *choice = &learnt->choice;
  return snprintf(text, size,
                  "learnt key %016llx ranks %d nodes %d cores %d transport %s collective %s width %d class %d "
                  "memory %s algo %s middle %s radix %u block %u ns %lld date %s\n",
                  (unsigned long long)line->key, (int)line->ranks, (int)line->nodes, (int)line->cores, line->transport,
                  tt_kinds[learnt->collective].name, learnt->width, learnt->size_class,
                  tt_memory_names[learnt->memory], tt_algos[choice->algo].name,
                  choice->middle < 0 ? "-" : tt_algos[choice->middle].name, choice->radix,
                  (unsigned)choice->block_bytes, (long long)learnt->ns, line->date);
}

static int text_print(const struct tt_cache *cache, char *text, size_t size)
{
  int len = head_print(text, size);
  for (int i = 0; i < cache->n; i++) {
    const struct tt_cache_line *line = &cache->lines[i];
    len += snprintf(text + len, size - (size_t)len, "link kind %s transport %s alpha %d beta %d date %s\n",
                    tt_link_names[line->kind], line->transport, line->correction.alpha, line->correction.beta,
                    line->date);
  }
  for (int i = 0; i < cache->nlearnt; i++) len += learnt_print(&cache->learnt[i], text + len, size - (size_t)len);
  return len;
}

void tt_cache_store(const struct tt_cache *cache, const struct tt_settings *settings)
{
  char path[TT_CACHE_PATH], temporary[TT_CACHE_PATH], text[TEXT_BYTES];
  if (!tt_cache_path(path, settings)) return;
  snprintf(temporary, sizeof temporary, "%.*s.XXXXXX", TT_CACHE_PATH - 8, path);
  folders_make(path);
  int len = text_print(cache, text, sizeof text);
  int fd = mkostemp(temporary, O_CLOEXEC); /* mode 0600 */
  int is_written = fd >= 0 && tt_file_write(fd, text, (size_t)len, -1) == len;
  if (fd >= 0 && close(fd) != 0) is_written = 0;
  if (is_written && rename(temporary, path) == 0) {
    tt_log(TT_LOG_INFO, "what pairs take and what was learnt is kept in %s", path);
    return;
  }
  tt_log(TT_LOG_INFO, "%s is not written: %s (TUTTI_CACHE names another folder, or none)", path, strerror(errno));
  if (fd >= 0) unlink(temporary);
}
