/* SPDX-License-Identifier: BSD-3-Clause */
/* A kernel of one thread behind every wait of a stream. If the operation has failed it traps, so that the context fails
 * and the program learns of it from CUDA; else it does nothing. The driver compiles it when it is loaded. */
#include "cuda/cuda_private.h"

static const char text[] =
    ".version 6.0\n.target sm_50\n.address_size 64\n"
    ".visible .entry tt_trap(.param .u64 word)\n{\n"
    "  .reg .pred %p<2>; .reg .b32 %r<2>; .reg .b64 %d<2>;\n"
    "  ld.param.u64 %d0, [word]; ld.volatile.global.u32 %r0, [%d0];\n"
    "  setp.ne.u32 %p0, %r0, 0; @%p0 trap; ret;\n}\n";

tuttiResult_t tt_cuda_trap_load(const struct cuda *cuda, int ordinal, struct cuda_trap *trap)
{
  if (trap->module) return tuttiSuccess;
  int code = cuda->driver.module_load(&trap->module, text);
  if (code != CU_SUCCESS) return tt_cuda_fail(&cuda->driver, "cuModuleLoadData", ordinal, code);
  code = cuda->driver.module_function(&trap->kernel, trap->module, "tt_trap");
  return code == CU_SUCCESS ? tuttiSuccess : tt_cuda_fail(&cuda->driver, "cuModuleGetFunction", ordinal, code);
}

void tt_cuda_trap_unload(const struct cuda *cuda, struct cuda_trap *trap)
{
  if (trap->module) cuda->driver.module_unload(trap->module);
  trap->module = NULL;
}

int tt_cuda_trap_launch(const struct cuda *cuda, const struct cuda_trap *trap, void *stream, _Atomic uint32_t *word)
{
  uint64_t address = (uintptr_t)word;
  void *arguments[] = {&address};
  return cuda->driver.launch(trap->kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, NULL);
}
