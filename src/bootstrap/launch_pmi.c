/* SPDX-License-Identifier: BSD-3-Clause */
/* PMI-1, the protocol of MPICH's and Intel MPI's mpiexec (Hydra), Flux and `srun --mpi=pmi2`: lines of text over the
 * socket PMI_FD, each a question of this process and the launcher's answer (Balaji et al., "PMI: A Scalable Parallel
 * Process-Management Interface for Extreme-Scale Systems", EuroMPI 2010). Process 0 puts the id into the launcher's
 * store, and the others get it after a barrier. PMI is finalized right after that, because a launcher takes an earlier
 * end of a process for an abort; so a process may end later in any way. If MPI is initialized in this process, MPI has
 * initialized PMI and will finalize it; then only the store and the barrier are used. */
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bootstrap/launch_private.h"
#include "bootstrap/wire_private.h"

#define LINE_BYTES 1024  /* the protocol's longest line, with its newline */
#define VALUE_BYTES 256  /* longest value that we put, so that its line is short enough with any name of the store */
#define TEXT_BYTES (1 + 2 * TUTTI_UNIQUE_ID_BYTES) /* "i" and the id in hexadecimal digits, or "e" and a result code */

struct pmi {
  int fd;
  uint64_t deadline_ns;
  int value_max; /* longest value, without a terminating NUL */
  char store[LINE_BYTES / 2];
  char line[LINE_BYTES + 1]; /* the last answer, without its newline */
};

static tuttiResult_t pmi_fail(const char *question, const char *why)
{
  return tt_fail(tuttiSystemError, "the PMI launcher does not answer: %.40s: %s", question, why);
}

/* ---- lines ---- */

static tuttiResult_t line_send(const struct pmi *pmi, const char *line, size_t len)
{
  while (len) {
    ssize_t n = send(pmi->fd, line, len, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return pmi_fail(line, strerror(errno));
    line += n;
    len -= (size_t)n;
  }
  return tuttiSuccess;
}

/* One line is one answer: the launcher sends nothing unasked. */
static tuttiResult_t line_receive(struct pmi *pmi, const char *question)
{
  for (size_t got = 0; got < LINE_BYTES;) {
    uint64_t now = tt_now_ns();
    struct pollfd readable = {.fd = pmi->fd, .events = POLLIN};
    if (now >= pmi->deadline_ns)
      return pmi_fail(question, "no answer within TUTTI_INIT_TIMEOUT_MS: not all processes have come as far");
    uint64_t left_ms = (pmi->deadline_ns - now) / 1000000u + 1;
    if (poll(&readable, 1, left_ms < 1000 ? (int)left_ms : 1000) <= 0) continue;
    ssize_t n = recv(pmi->fd, pmi->line + got, LINE_BYTES - got, MSG_DONTWAIT);
    if (n == 0) return pmi_fail(question, "PMI_FD is closed: the launcher has ended, or another program has used it");
    if (n < 0 && errno != EAGAIN && errno != EINTR) return pmi_fail(question, strerror(errno));
    if (n < 0) continue;
    got += (size_t)n;
    if (pmi->line[got - 1] != '\n') continue;
    pmi->line[got - 1] = 0;
    return tuttiSuccess;
  }
  return pmi_fail(question, "its answer is no line of PMI-1");
}

/* The value of `name` in the last answer, NULL if the answer has none; *len is its length. */
static const char *field_find(const struct pmi *pmi, const char *name, size_t *len)
{
  size_t name_len = strlen(name);
  for (const char *at = pmi->line; *at; at += strspn(at, " ")) {
    size_t word_len = strcspn(at, " ");
    if (word_len > name_len && at[name_len] == '=' && memcmp(at, name, name_len) == 0) {
      *len = word_len - name_len - 1;
      return at + name_len + 1;
    }
    at += word_len;
  }
  return NULL;
}

static int field_is(const struct pmi *pmi, const char *name, const char *wanted)
{
  size_t len;
  const char *value = field_find(pmi, name, &len);
  return value && len == strlen(wanted) && memcmp(value, wanted, len) == 0;
}

/* Asks and waits for the answer called `answer`; its field rc, if there, must be 0. */
static tuttiResult_t ask(struct pmi *pmi, const char *answer, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static tuttiResult_t ask(struct pmi *pmi, const char *answer, const char *format, ...)
{
  char question[LINE_BYTES + 1];
  size_t unused;
  va_list arguments;
  va_start(arguments, format);
  int len = vsnprintf(question, sizeof question - 1, format, arguments);
  va_end(arguments);
  if (len < 0 || len >= LINE_BYTES) return pmi_fail(format, "the line would be too long for PMI-1");
  memcpy(question + len, "\n", 2);
  tuttiResult_t result = line_send(pmi, question, (size_t)len + 1);
  question[len] = 0;
  if (result == tuttiSuccess) result = line_receive(pmi, question);
  if (result != tuttiSuccess) return result;
  int is_well = field_is(pmi, "cmd", answer) && (!field_find(pmi, "rc", &unused) || field_is(pmi, "rc", "0"));
  tt_text_clean(pmi->line, sizeof pmi->line);
  return is_well ? tuttiSuccess : pmi_fail(question, pmi->line);
}

/* ---- the exchange ---- */

static tuttiResult_t store_open(struct pmi *pmi)
{
  size_t len;
  tuttiResult_t result = ask(pmi, "maxes", "cmd=get_maxes");
  if (result != tuttiSuccess) return result;
  const char *value = field_find(pmi, "vallen_max", &len);
  int max = value ? atoi(value) - 1 : 0;
  if (max < 1) return pmi_fail("cmd=get_maxes", pmi->line);
  pmi->value_max = max < VALUE_BYTES ? max : VALUE_BYTES;
  result = ask(pmi, "my_kvsname", "cmd=get_my_kvsname");
  if (result != tuttiSuccess) return result;
  const char *name = field_find(pmi, "kvsname", &len);
  if (!name || len >= sizeof pmi->store) return pmi_fail("cmd=get_my_kvsname", pmi->line);
  memcpy(pmi->store, name, len);
  pmi->store[len] = 0;
  return tuttiSuccess;
}

/* Process 0 publishes its id, or its failure to make one, so that the others do not wait in vain. */
static tuttiResult_t id_publish(struct pmi *pmi, tuttiUniqueId *out, const struct tt_settings *settings)
{
  static const char digits[] = "0123456789abcdef";
  struct tt_id id;
  char text[TEXT_BYTES + 1] = "";
  tuttiResult_t result = tt_id_create(&id, settings), put = tuttiSuccess;
  snprintf(text, sizeof text, "e%0*d", TEXT_BYTES - 1, (int)result);
  if (result == tuttiSuccess) {
    tt_id_pack(&id, out);
    text[0] = 'i';
    for (size_t b = 0; b < TUTTI_UNIQUE_ID_BYTES; b++) {
      uint8_t byte = (uint8_t)out->internal[b];
      text[1 + 2 * b] = digits[byte >> 4];
      text[2 + 2 * b] = digits[byte & 15];
    }
  }
  for (int k = 0; put == tuttiSuccess && k * pmi->value_max < TEXT_BYTES; k++)
    put = ask(pmi, "put_result", "cmd=put kvsname=%s key=tutti-id-%d value=%.*s", pmi->store, k, pmi->value_max,
              text + k * pmi->value_max);
  tt_wipe(&id, sizeof id);
  tt_wipe(text, sizeof text);
  return result == tuttiSuccess ? put : result;
}

static int digit_value(char digit)
{
  if (digit >= '0' && digit <= '9') return digit - '0';
  return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

static tuttiResult_t id_read(const char text[TEXT_BYTES], tuttiUniqueId *id)
{
  if (text[0] == 'e')
    return tt_fail(tuttiRemoteError, "process 0 could not make a unique id (%s): see what it logged",
                   tuttiGetErrorString((tuttiResult_t)atoi(text + 1)));
  for (size_t b = 0; b < TUTTI_UNIQUE_ID_BYTES; b++) {
    int high = digit_value(text[1 + 2 * b]), low = digit_value(text[2 + 2 * b]);
    if (text[0] != 'i' || high < 0 || low < 0)
      return tt_fail(tuttiInvalidUsage, "process 0 published an id of another version of Tutti: install the same "
                     "one everywhere");
    id->internal[b] = (char)(high << 4 | low);
  }
  return tuttiSuccess;
}

static tuttiResult_t id_fetch(struct pmi *pmi, tuttiUniqueId *id)
{
  char text[TEXT_BYTES + 1] = "";
  for (int k = 0; k * pmi->value_max < TEXT_BYTES; k++) {
    size_t len, at = (size_t)(k * pmi->value_max);
    tuttiResult_t result = ask(pmi, "get_result", "cmd=get kvsname=%s key=tutti-id-%d", pmi->store, k);
    if (result != tuttiSuccess) return result;
    const char *value = field_find(pmi, "value", &len);
    if (!value || len > TEXT_BYTES - at) return pmi_fail("cmd=get", "its answer has no such value");
    memcpy(text + at, value, len);
  }
  tuttiResult_t result = id_read(text, id);
  tt_wipe(text, sizeof text);
  return result;
}

/* True if MPI was initialized in this process; then PMI is, too. */
static int mpi_is_up(void)
{
  void *symbol = dlsym(RTLD_DEFAULT, "MPI_Initialized");
  int (*initialized)(int *);
  int flag = 0;
  memcpy(&initialized, &symbol, sizeof symbol);
  return symbol && initialized(&flag) == 0 && flag;
}

tuttiResult_t tt_launch_pmi(tuttiLaunch_t *launch, int fd, const struct tt_settings *settings)
{
  struct pmi pmi = {.fd = fd, .deadline_ns = tt_now_ns() + (uint64_t)settings->init_timeout_ms * 1000000u};
  int is_shared = mpi_is_up();
  tuttiUniqueId id;
  tuttiResult_t result = tuttiSuccess, made = tuttiSuccess;
  if (!is_shared) result = ask(&pmi, "response_to_init", "cmd=init pmi_version=1 pmi_subversion=1");
  if (result == tuttiSuccess) result = store_open(&pmi);
  if (result == tuttiSuccess && launch->proc == 0) made = id_publish(&pmi, &id, settings);
  if (result == tuttiSuccess) result = ask(&pmi, "barrier_out", "cmd=barrier_in");
  if (result == tuttiSuccess && launch->proc != 0) made = id_fetch(&pmi, &id);
  if (result == tuttiSuccess && !is_shared) result = ask(&pmi, "finalize_ack", "cmd=finalize");
  if (result == tuttiSuccess) result = made;
  if (result == tuttiSuccess) launch->id = id;
  tt_wipe(&id, sizeof id);
  tt_wipe(&pmi, sizeof pmi);
  return result;
}
