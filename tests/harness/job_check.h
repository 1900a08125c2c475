/* SPDX-License-Identifier: BSD-3-Clause */
/* A check in a job that is drawn by seed: a test fails, and says with which seed and transports. In a function that has
 * a `job` with both. */
#ifndef JOB_CHECK_H
#define JOB_CHECK_H

#define CHECK(holds, ...) \
  do { \
    if (!(holds)) { \
      printf("seed %llu, %s: ", (unsigned long long)job->seed, job->transports); \
      printf(__VA_ARGS__); \
      printf("\n"); \
      fail(); \
    } \
  } while (0)

#endif
