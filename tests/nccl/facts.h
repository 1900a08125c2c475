/* SPDX-License-Identifier: BSD-3-Clause */
/* Facts of a C header that are compiled, not run (-DNCCL_HEADER, -DNAME_PREFIX, -DFUNCTION_PREFIX: see facts.c). */
#ifndef TEST_NCCL_FACTS_H
#define TEST_NCCL_FACTS_H

#include NCCL_HEADER

#include <stddef.h>

#define PASTE(prefix, name) prefix##name
#define PASTED(prefix, name) PASTE(prefix, name)
#define VALUE(name, number) _Static_assert(PASTED(NAME_PREFIX, name) == (number), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define PLACE(type, field, bytes) \
  _Static_assert(offsetof(type, field) == (bytes) && sizeof(((type *)0)->field) == 4, #field)
#define POINTER_PLACE(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #field)
#define TYPE(result, name, ...) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(PASTED(FUNCTION_PREFIX, name)), result(__VA_ARGS__)), #name)
#define CALL(name, ...) TYPE(ncclResult_t, name, __VA_ARGS__)

#endif
