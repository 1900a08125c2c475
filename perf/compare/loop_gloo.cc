/* SPDX-License-Identifier: BSD-3-Clause */
/* Gloo for loop.c, over its TCP transport. From the environment: RANK and WORLD_SIZE; LOOP_STORE, an empty folder that
 * all ranks see; LOOP_ADDRESS of this host or LOOP_INTERFACE; LOOP_ALGORITHM, a name below. */
#include <cstdlib>
#include <memory>
#include <string>

#include <gloo/allreduce.h>
#include <gloo/allreduce_bcube.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "loop.h"

using Options = gloo::AllreduceOptions;

static std::shared_ptr<gloo::rendezvous::Context> context;
static std::unique_ptr<gloo::Algorithm> algorithm; /* that knows its vector, or NULL: it is given with each call */
static std::unique_ptr<Options> options;
static std::string name;

static std::string setting(const char *variable, const char *otherwise)
{
  const char *text = getenv(variable);
  if (!text && !otherwise) fail((std::string(variable) + " is not set").c_str());
  return text ? text : otherwise;
}

static std::unique_ptr<Options> options_create(float *data, size_t count, uint32_t tag)
{
  auto made = std::make_unique<Options>(context);
  made->setOutput(data, count);
  made->setTag(tag);
  void (*sum)(void *, const void *, const void *, size_t) = &gloo::sum<float>;
  made->setReduceFunction(sum);
  return made;
}

template <typename T> static std::unique_ptr<gloo::Algorithm> make(float *data, size_t count)
{
  return std::make_unique<T>(context, std::vector<float *>{data}, static_cast<int>(count));
}

void peer_start(int *, char ***, int *rank, int *nranks)
{
  *rank = atoi(setting("RANK", nullptr).c_str());
  *nranks = atoi(setting("WORLD_SIZE", nullptr).c_str());
  name = setting("LOOP_ALGORITHM", "default");
  gloo::transport::tcp::attr attr;
  attr.iface = setting("LOOP_INTERFACE", "");
  if (attr.iface.empty()) attr.hostname = setting("LOOP_ADDRESS", "127.0.0.1");
  auto device = gloo::transport::tcp::CreateDevice(attr);
  gloo::rendezvous::FileStore store(setting("LOOP_STORE", nullptr));
  context = std::make_shared<gloo::rendezvous::Context>(*rank, *nranks);
  context->connectFullMesh(store, device);
}

/* Gloo has no allocator. */
void *peer_memory_alloc(size_t bytes)
{
  return malloc(bytes);
}

void peer_memory_free(void *memory)
{
  free(memory);
}

void peer_prepare(float *data, size_t count)
{
  algorithm.reset();
  options.reset();
  if (!data) return;
  if (name == "old_ring") algorithm = make<gloo::AllreduceRing<float>>(data, count);
  else if (name == "old_ring_chunked") algorithm = make<gloo::AllreduceRingChunked<float>>(data, count);
  else if (name == "old_halving_doubling") algorithm = make<gloo::AllreduceHalvingDoubling<float>>(data, count);
  else if (name == "old_bcube") algorithm = make<gloo::AllreduceBcube<float>>(data, count);
  else options = options_create(data, count, 1);
  if (name == "bcube") options->setAlgorithm(Options::Algorithm::BCUBE);
  else if (name == "ring") options->setAlgorithm(Options::Algorithm::RING);
  else if (options && name != "default") fail(("LOOP_ALGORITHM is " + name).c_str());
}

void peer_all_reduce(void)
{
  if (algorithm) algorithm->run();
  else gloo::allreduce(*options);
}

float peer_sum(float value)
{
  gloo::allreduce(*options_create(&value, 1, 2));
  return value;
}

void peer_finish(void)
{
  algorithm.reset();
  options.reset();
}
