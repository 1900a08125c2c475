/* SPDX-License-Identifier: BSD-3-Clause */
/* IS_SLOW: 1 under a sanitizer, where a sample of what is tested has to do; the build sets it for an emulator.
 * IS_TSAN: 1 under the thread sanitizer, which sees nothing between processes: what ranks do as threads, too, it is
 * shown by these. */
#ifndef SLOW_H
#define SLOW_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SLOW 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define IS_SLOW 1
#endif
#ifndef IS_SLOW
#define IS_SLOW 0
#endif

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define IS_TSAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define IS_TSAN 1
#endif
#ifndef IS_TSAN
#define IS_TSAN 0
#endif

#endif
