/* SPDX-License-Identifier: BSD-3-Clause */
/* The state of the driver double, shared by its files. README.md says what it is and how a test uses it.
 *
 * Locks, in the order in which they are taken: the driver's lock (entry.c), which every function of the driver holds;
 * `hardware` of queues, streams, events and captures; the lock of the regions (memory.c). The threads of channels take
 * the last two alone. */
#ifndef DOUBLE_H
#define DOUBLE_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "driver.h"

#define EXPORT __attribute__((visibility("default")))
#define GPUS 2
#define MADE_CONTEXTS 3 /* the primary ones of both GPUs, and a second one of GPU 0 */
#define CONTEXTS 16
#define CHANNELS 32
#define PAGE 4096u
#define JUNK 0xdb

/* Errors of the driver. */
enum {
  SUCCESS = 0,
  INVALID_VALUE = 1,
  OUT_OF_MEMORY = 2,
  NOT_INITIALIZED = 3,
  INVALID_DEVICE = 101,
  INVALID_CONTEXT = 201,
  INVALID_HANDLE = 400,
  ILLEGAL_STATE = 401,
  NOT_FOUND = 500,
  NOT_READY = 600,
  ILLEGAL_ADDRESS = 700,
  ALREADY_REGISTERED = 712,
  NOT_REGISTERED = 713,
  LAUNCH_FAILED = 719,
  NOT_PERMITTED = 800,
  NOT_SUPPORTED = 801,
  CAPTURE_UNSUPPORTED = 900,
  CAPTURE_INVALIDATED = 901,
  CAPTURE_MERGE = 902,
  CAPTURE_UNMATCHED = 903,
  CAPTURE_UNJOINED = 904,
  CAPTURE_ISOLATION = 905,
  CAPTURE_IMPLICIT = 906,
  CAPTURED_EVENT = 907,
  CAPTURE_WRONG_THREAD = 908
};

/* ---- settings.c: environment variables, read once ---- */

struct settings {
  unsigned channels, push, delay_us, flags_late_us;
  int frees_lock, bytes_late, launch_blocking, has_memops;
  uint64_t seed;
  const char *report; /* NULL: none */
};

const struct settings *settings(void);

/* A random number below `below`, drawn from *state. */
uint64_t draw(uint64_t *state, uint64_t below);

/* ---- entry.c: begin and end of every function of the driver ---- */

enum {
  NEEDS_CONTEXT = 1,
  CREATES = 2,  /* makes, pins or loads something */
  ENDS = 4,     /* undoes that: a failure that a test asks for is told after it was done */
  WAITS_IDLE = 8, /* waits until the GPUs have nothing to do, as cuMemFree */
  IS_UNSAFE = 16, /* not while a stream is captured */
  IS_EARLY = 32,  /* before cuInit, in a context with an error */
  IS_DONE_ANYWAY = 64 /* a failure that a test asks for is told afterwards, as with ENDS */
};

/* 0, or the error with which the function returns at once. */
int enter(const char *name, unsigned flags);

/* Ends the function; returns `code`, or the failure that a test has asked for. */
int leave(int code);

/* Gives the driver's lock back early, before the caller waits: leave then only returns the code. */
void unlock_driver(void);

/* Something that no program may do: counted, and told on stderr. */
int breach(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 1 while the calling thread runs a host function, in which the driver may not be called. */
extern _Thread_local int is_callback;

/* ---- report.c ---- */

void count_call(const char *function);
void count_thing(const char *kind, long created, long freed);
void count_sealed(const char *function); /* a refusal */
void report_write(void);

/* ---- context.c ---- */

struct channel;
struct stream;

struct context {
  int gpu, is_alive, retained;
  int error; /* sticky */
  struct stream *legacy;
  struct channel *channels[CHANNELS];
  unsigned next_channel;
};

extern struct context contexts[CONTEXTS];

struct context *current(void); /* of the calling thread; NULL: none */
struct context *context_of(const void *handle);
int context_error(const struct context *context);
int context_depth(void);

/* ---- memory.c ---- */

enum memory_kind { IS_DEVICE, IS_MANAGED, IS_POOLED /* belongs to no context */, IS_PINNED, IS_REGISTERED };

struct region {
  char *at;         /* as the program sees it: without access, but for memory of the host */
  char *inner;      /* where the double reaches the same bytes */
  size_t len, room; /* room: in whole pages */
  enum memory_kind kind;
  struct context *context;
  unsigned long long id;
};

/* NULL if memory is out. `host` is what is registered. */
void *memory_make(struct context *context, enum memory_kind kind, size_t len, void *host);

/* 1 if it was there; `inner` bytes become junk. */
int memory_end(const void *at, int is_host);

/* A copy of the region that has the byte; 0 if there is none. */
int memory_find(const void *pointer, struct region *region);
size_t memory_registered(void); /* bytes of the program's own memory that are pinned */

/* Where the double reaches len bytes; NULL if no GPU may. */
void *reach(const void *pointer, size_t len);
void memory_forget(void);

/* ---- work.c: what a GPU is told to do ---- */

enum work_kind { WORK_NOTHING, WORK_RECORD, WORK_AFTER, WORK_COPY, WORK_SET, WORK_MEMOPS, WORK_KERNEL, WORK_CALL,
                 WORK_FREE };

struct event;
struct kernel;

struct work {
  enum work_kind kind;
  struct stream *stream;
  uint64_t number; /* in its stream, from 1 */
  uint64_t serial; /* of all work */
  struct work *next;
  union {
    struct event *event; /* to be recorded, or NULL */
    struct {
      struct stream *stream; /* waits until it has done so many */
      uint64_t number;
      struct event *event; /* not NULL: until the newest record of it is done */
    } after;
    struct {
      uint64_t dst, src;
      size_t width, height, dst_pitch, src_pitch;
    } copy;
    struct {
      uint64_t dst;
      unsigned value, size;
      size_t count;
    } set;
    struct {
      unsigned count;
      struct memop *list; /* malloc */
    } memops;
    struct {
      const struct kernel *kernel;
      unsigned blocks;
      void *args; /* malloc */
    } launch;
    struct {
      void (*function)(void *argument);
      void *argument;
    } call;
    uint64_t free;
  };
};

struct work *work_copy(const struct work *work);
void work_free(struct work *work);

/* Does it, in the thread of a channel. */
void work_do(struct work *work);

/* ---- posted.c: stores that are under way to the host ---- */

void posted_store(void *to, uint64_t value, unsigned size);
void posted_copy(struct stream *stream, void *to, const void *from, size_t len);
void posted_flag_is_out(struct stream *stream); /* bytes held back for it may follow */
void posted_land(void); /* waits until all stores have landed */

/* ---- channel.c ---- */

extern pthread_mutex_t hardware;

struct stream *channel_stream(struct context *context, unsigned flags);

/* Puts work at the end of a stream, or into the graph that it captures. Takes the work; returns an error or 0. */
int submit(struct stream *stream, struct work *work);

/* The same for the parts of a graph: no limit of the queue. `hardware` is held. */
void channel_put(struct stream *stream, struct work *work);

/* Waits until the stream has done `number` pieces of work. */
void wait_done(struct stream *stream, uint64_t number);
void wait_idle(void); /* all contexts, for what was submitted until now */
void progress_wait(void); /* with `hardware` held: until something was done */


/* ---- stream.c ---- */

struct capture;

struct stream {
  struct context *context;
  struct channel *channel;
  struct stream *next;
  int is_alive, is_legacy, is_blocking;
  unsigned flags;
  int priority;
  uint64_t submitted, done, legacy_seen;
  pthread_t owner; /* of a stream of one thread */
  int has_owner;
  struct capture *capture;
  struct node **tips; /* the last nodes captured */
  int ntips;
  uint64_t random; /* seed of the order in which graphs are done */
};

struct event {
  struct event *next;
  int is_alive;
  unsigned flags;
  struct stream *stream; /* of the newest record; NULL: never recorded */
  uint64_t number, done_ns;
  struct capture *capture; /* recorded in it, after these nodes */
  unsigned long long capture_id;
  struct node **tips;
  int ntips;
};

extern struct stream *streams; /* all that there ever were */

/* NULL and a breach if there is none. `hardware` is not held. */
struct stream *stream_of(void *handle);
struct event *event_of(void *handle);
int event_is_done(const struct event *event); /* `hardware` is held */

/* ---- capture.c; `hardware` is held in all but capture_is_unsafe ---- */

/* Makes a node of the work; an error if the capture is invalid. */
int capture_add(struct stream *stream, struct work *work);
int capture_record(struct stream *stream, struct event *event);
/* 1: the event belongs to a capture, which the stream has joined, or *code says why not. */
int capture_wait(struct stream *stream, struct event *event, int *code);
int capture_is_active(const struct stream *stream);
void capture_invalidate(struct stream *stream);
/* 1 if the calling thread may not do what is unsafe while somebody captures: their captures are invalid then. */
int capture_is_unsafe(void);
/* An error if work on the legacy stream is forbidden because a blocking stream of the context is captured. */
int capture_forbids_legacy(struct context *context);

/* ---- kernels: client_kernels.c ---- */

struct kernel {
  const char *name;
  size_t args_len;
  const unsigned char *words; /* bytes of each parameter, ended by 0 */
  const char *(*run)(const struct kernel *kernel, unsigned blocks, void *args); /* NULL, or what is wrong */
};

extern const char kernel_trapped[]; /* what a kernel returns that has trapped, which a program may wish */
const struct kernel *client_kernel(const char *name);

#endif
