/* A loop of a given type and schedule, with a step: each iteration comes once. */
#ifndef SUITE_LOOPS_H
#define SUITE_LOOPS_H

#include "suite.h"

#define SUITE_PRAGMA(text) _Pragma(#text)

enum { SUITE_COUNT = 517 };

/* Upwards, in a region and combined with one. `from` and `step` may bring the loop near the ends of
 * the type's range, but compilers and runtimes compute a few steps beyond the bounds. */
#define CHECK_LOOP_UP(type, from, step, schedule_clause)                                           \
    do {                                                                                           \
        static unsigned char within[SUITE_COUNT], combined[SUITE_COUNT];                           \
        const type first = (from), last = (type)(first + (type)(step) * (type)(SUITE_COUNT - 1));  \
        memset(within, 0, sizeof within);                                                          \
        memset(combined, 0, sizeof combined);                                                      \
        SUITE_PRAGMA(omp parallel)                                                                 \
        {                                                                                          \
            SUITE_PRAGMA(omp for schedule_clause)                                                  \
            for (type i = first; i <= last; i += (step))                                           \
                within[(i - first) / (step)]++;                                                    \
        }                                                                                          \
        SUITE_PRAGMA(omp parallel for schedule_clause)                                             \
        for (type i = first; i < (type)(last + 1); i += (step))                                    \
            combined[(i - first) / (step)]++;                                                      \
        for (int k = 0; k < SUITE_COUNT; k++)                                                      \
            CHECK(within[k] == 1 && combined[k] == 1);                                             \
    } while (0)

/* Downwards; not for `unsigned`, where gcc 12 runs a loop with chunks no time. */
#define CHECK_LOOP_DOWN(type, from, step, schedule_clause)                                         \
    do {                                                                                           \
        static unsigned char within[SUITE_COUNT];                                                  \
        const type first = (from), last = (type)(first + (type)(step) * (type)(SUITE_COUNT - 1));  \
        memset(within, 0, sizeof within);                                                          \
        SUITE_PRAGMA(omp parallel)                                                                 \
        {                                                                                          \
            SUITE_PRAGMA(omp for schedule_clause nowait)                                           \
            for (type i = last; i > (type)(first - 1); i -= (step))                                \
                within[(i - first) / (step)]++;                                                    \
        }                                                                                          \
        for (int k = 0; k < SUITE_COUNT; k++)                                                      \
            CHECK(within[k] == 1);                                                                 \
    } while (0)

#define CHECK_LOOP(type, from, step, schedule_clause)                                              \
    do {                                                                                           \
        CHECK_LOOP_UP(type, from, step, schedule_clause);                                          \
        CHECK_LOOP_DOWN(type, from, step, schedule_clause);                                        \
    } while (0)

#endif
