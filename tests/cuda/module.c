/* SPDX-License-Identifier: BSD-3-Clause */
/* Modules, launches of kernels, and the driver's functions by name. */
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "double.h"

struct module {
  int is_alive;
  char *text; /* of PTX */
};

#define MODULES 256
static struct module modules[MODULES];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

EXPORT int cuModuleLoadData(void **module, const void *image)
{
  int code = enter("cuModuleLoadData", NEEDS_CONTEXT | CREATES | IS_UNSAFE | WAITS_IDLE);
  if (code != SUCCESS) return code;
  if (!image) return leave(INVALID_VALUE);
  if (strncmp(image, "//", 2) != 0 && strncmp(image, ".version", 8) != 0) return leave(INVALID_VALUE);
  int m = 0;
  pthread_mutex_lock(&mutex);
  while (m < MODULES && modules[m].is_alive) m++;
  if (m < MODULES) modules[m] = (struct module){1, strdup(image)};
  pthread_mutex_unlock(&mutex);
  if (m == MODULES) return leave(OUT_OF_MEMORY);
  count_thing("modules", 1, 0);
  *module = &modules[m];
  return leave(SUCCESS);
}

static struct module *module_of(void *handle)
{
  for (int m = 0; m < MODULES; m++)
    if (handle == &modules[m] && modules[m].is_alive) return &modules[m];
  return NULL;
}

EXPORT int cuModuleUnload(void *handle)
{
  int code = enter("cuModuleUnload", NEEDS_CONTEXT | ENDS | IS_UNSAFE | WAITS_IDLE);
  if (code != SUCCESS) return code;
  struct module *module = module_of(handle);
  if (!module) return leave(breach(INVALID_HANDLE, "cuModuleUnload of no module"));
  pthread_mutex_lock(&mutex);
  free(module->text);
  module->is_alive = 0;
  pthread_mutex_unlock(&mutex);
  count_thing("modules", 0, 1);
  return leave(SUCCESS);
}

/* 1 if the text has ".entry NAME". */
static int has_entry(const char *text, const char *name)
{
  size_t len = strlen(name);
  while ((text = strstr(text, ".entry")) != NULL) {
    text += strlen(".entry");
    while (isspace((unsigned char)*text)) text++;
    if (strncmp(text, name, len) == 0 && !isalnum((unsigned char)text[len]) && text[len] != '_') return 1;
  }
  return 0;
}

EXPORT int cuModuleGetFunction(void **function, void *handle, const char *name)
{
  int code = enter("cuModuleGetFunction", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  const struct module *module = module_of(handle);
  if (!module) return leave(breach(INVALID_HANDLE, "cuModuleGetFunction of no module"));
  const struct kernel *kernel = has_entry(module->text, name) ? client_kernel(name) : NULL;
  if (!kernel) return leave(NOT_FOUND);
  *function = (void *)(uintptr_t)kernel;
  return leave(SUCCESS);
}

/* The parameters as a kernel of the double takes them: each in 8 bytes. */
static void *args_take(const struct kernel *kernel, void **params)
{
  char *args = calloc(1, kernel->args_len);
  if (!args) abort();
  for (int k = 0; kernel->words[k]; k++) memcpy(args + 8 * k, params[k], kernel->words[k]);
  return args;
}

static int launch(void *handle, const struct work *work)
{
  struct stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (stream->context != current()) return breach(INVALID_HANDLE, "a launch on a stream of another context");
  int code = submit(stream, work_copy(work));
  if (code != SUCCESS || !settings()->launch_blocking) return code;
  pthread_mutex_lock(&hardware);
  uint64_t number = capture_is_active(stream) ? 0 : stream->submitted;
  pthread_mutex_unlock(&hardware);
  unlock_driver();
  wait_done(stream, number);
  return context_error(stream->context);
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                          void **extra)
{
  int code = enter("cuLaunchKernel", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  if (!function || !grid_x || grid_y != 1 || grid_z != 1 || !block_x || block_x > 1024 || block_y != 1 ||
      block_z != 1 || shared_bytes || extra)
    return leave(breach(INVALID_VALUE, "a grid that no kernel is made for"));
  struct work work = {.kind = WORK_KERNEL, .launch = {function, grid_x, NULL}};
  work.launch.args = args_take(function, params);
  code = launch(stream, &work);
  free(work.launch.args);
  return leave(code);
}

/* ---- functions by name ---- */

/* The newest of those that a program of that version can mean. */
static void *find(void *library, const char *name, int version)
{
  char versioned[128];
  for (int v = strstr(name, "CaptureInfo") && version < 12030 ? 2 : 3; v >= 2; v--) {
    if (v == 2 && strcmp(name, "cuStreamUpdateCaptureDependencies") == 0 && version < 12030) continue;
    snprintf(versioned, sizeof versioned, "%s_v%d", name, v);
    void *function = dlsym(library, versioned);
    if (function) return function;
  }
  return dlsym(library, name);
}

EXPORT int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status)
{
  Dl_info self;
  (void)flags;
  if (!name || !function) return INVALID_VALUE;
  void *library = dladdr((void *)(uintptr_t)modules, &self) ? dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : NULL;
  *function = library ? find(library, name, version) : NULL;
  if (status) *status = *function ? 0 : 1; /* found; no such symbol */
  return SUCCESS;
}
