/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti_message.h. */
#include "tutti_message.h"

#include "api/collective_private.h"

/* The arguments of a call, checked into what comm needs. */
static tuttiResult_t asked_check(struct tuttiMessage *message, const struct tuttiComm *comm, const char *name, int type)
{
  struct tt_message *asked = &message->message;
  size_t count = asked->bytes;
  int nranks, least = asked->sends ? 0 : TT_ANY;
  tuttiResult_t result = tt_transfer_check(comm, NULL, asked->data, name, count, type);
  if (result != tuttiSuccess) return result;
  nranks = tt_comm_facts(comm)->nranks;
  if (asked->peer < least || asked->peer >= nranks)
    return tt_fail(tuttiInvalidArgument, "peer is %d: it must be from 0 to nranks - 1 = %d%s", (int)asked->peer,
                   nranks - 1, asked->sends ? "" : ", or TUTTI_ANY_SOURCE");
  if (asked->tag < least)
    return tt_fail(tuttiInvalidArgument, "tag is %d: it must be 0 or more%s", (int)asked->tag,
                   asked->sends ? "" : ", or TUTTI_ANY_TAG");
  asked->bytes = count * tt_type_size(type);
  return tuttiSuccess;
}

static tuttiResult_t info_check(const tuttiMessageInfo_t *info)
{
  if (!info || info->size >= sizeof *info) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "info.size is %zu: set it to sizeof(tuttiMessageInfo_t) = %zu", info->size,
                 sizeof *info);
}

static void info_set(tuttiMessageInfo_t *info, const struct tuttiMessage *message)
{
  if (!info) return;
  info->bytes = message->message.bytes;
  info->source = message->message.sends ? tt_comm_facts(message->comm)->rank : message->message.peer;
  info->tag = message->message.tag;
}

static tuttiResult_t run(struct tuttiMessage *message, tuttiComm_t comm, const char *name, int type)
{
  tuttiResult_t result = asked_check(message, comm, name, type);
  return result == tuttiSuccess ? tt_message_run(comm, message) : result;
}

static tuttiResult_t begin(const struct tt_message *asked, tuttiComm_t comm, const char *name, int type,
                           tuttiMessage_t *out)
{
  if (!out) return tt_null("message");
  struct tuttiMessage *message = tt_alloc(1, sizeof *message);
  if (!message) return tt_fail(tuttiSystemError, "out of memory for a message");
  message->message = *asked;
  tuttiResult_t result = asked_check(message, comm, name, type);
  if (result == tuttiSuccess) result = tt_message_begin(comm, message);
  if (result == tuttiSuccess) *out = message;
  else tt_free(message);
  return result;
}

tuttiResult_t tuttiSendTag(const void *sendbuff, size_t count, tuttiDataType_t type, int peer, int tag,
                           tuttiComm_t comm)
{
  struct tuttiMessage message;
  message.message = (struct tt_message){
      .peer = peer, .tag = tag, .sends = 1, .data = (void *)(uintptr_t)sendbuff, .bytes = count};
  return run(&message, comm, "sendbuff", (int)type);
}

tuttiResult_t tuttiRecvTag(void *recvbuff, size_t count, tuttiDataType_t type, int peer, int tag, tuttiComm_t comm,
                           tuttiMessageInfo_t *info)
{
  struct tuttiMessage message;
  message.comm = NULL;
  message.message = (struct tt_message){.peer = peer, .tag = tag, .data = recvbuff, .bytes = count};
  tuttiResult_t result = info_check(info);
  if (result == tuttiSuccess) result = run(&message, comm, "recvbuff", (int)type);
  int is_too_long = result == tuttiInvalidArgument && message.comm; /* else it was not begun */
  if (result == tuttiSuccess || is_too_long) info_set(info, &message);
  return result;
}

tuttiResult_t tuttiIsendTag(const void *sendbuff, size_t count, tuttiDataType_t type, int peer, int tag,
                            tuttiComm_t comm, tuttiMessage_t *message)
{
  const struct tt_message asked = {
      .peer = peer, .tag = tag, .sends = 1, .data = (void *)(uintptr_t)sendbuff, .bytes = count};
  return begin(&asked, comm, "sendbuff", (int)type, message);
}

tuttiResult_t tuttiIrecvTag(void *recvbuff, size_t count, tuttiDataType_t type, int peer, int tag, tuttiComm_t comm,
                            tuttiMessage_t *message)
{
  const struct tt_message asked = {.peer = peer, .tag = tag, .data = recvbuff, .bytes = count};
  return begin(&asked, comm, "recvbuff", (int)type, message);
}

tuttiResult_t tuttiMessageWait(tuttiMessage_t *message, int timeout_ms, tuttiMessageInfo_t *info)
{
  if (!message) return tt_null("message");
  tuttiResult_t result = tt_message_check(*message);
  if (result == tuttiSuccess) result = info_check(info);
  if (result != tuttiSuccess) return result;
  result = tt_message_wait(*message, timeout_ms);
  if (result == tuttiInProgress) return result;
  info_set(info, *message);
  tt_message_give_back(*message);
  *message = NULL;
  return result;
}

tuttiResult_t tuttiMessageFree(tuttiMessage_t *message)
{
  if (!message || !*message) return tuttiSuccess;
  tuttiResult_t result = tt_message_check(*message);
  if (result != tuttiSuccess) return result;
  tt_message_give_back(*message);
  *message = NULL;
  return result;
}
