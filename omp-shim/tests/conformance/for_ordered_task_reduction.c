/* Ordered loops with a reduction over tasks, signed and unsigned long long (OpenMP 5.0). */
#include "suite_loops.h"
static volatile unsigned long long from = ~0ULL - 1000;
enum { N = 40 };
#define CHECK_ORDERED(schedule_clause)                                                             \
    do {                                                                                           \
        const unsigned long long first = from;                                                     \
        long sum = 0, sum_ull = 0;                                                                 \
        int next = 0, next_ull = 0;                                                                \
        SUITE_PRAGMA(omp parallel)                                                                 \
        {                                                                                          \
            SUITE_PRAGMA(omp for ordered schedule_clause reduction(task, + : sum))                 \
            for (int i = 0; i < N; i++) {                                                          \
                SUITE_PRAGMA(omp task in_reduction(+ : sum))                                       \
                sum += i;                                                                          \
                SUITE_PRAGMA(omp ordered)                                                          \
                CHECK(next++ == i);                                                                \
            }                                                                                      \
            SUITE_PRAGMA(omp for ordered schedule_clause reduction(task, + : sum_ull))             \
            for (unsigned long long i = first; i < first + N; i++) {                               \
                sum_ull += (long)(i - first);                                                      \
                SUITE_PRAGMA(omp ordered)                                                          \
                CHECK(first + next_ull++ == i);                                                    \
            }                                                                                      \
        }                                                                                          \
        CHECK(next == N && next_ull == N);                                                         \
        CHECK(sum == N * (N - 1) / 2 && sum_ull == N * (N - 1) / 2);                               \
    } while (0)
int main(void)
{
    while (more_rounds()) {
        omp_set_schedule(omp_sched_guided, 2);
        CHECK_ORDERED(schedule(static));
        CHECK_ORDERED(schedule(dynamic, 3));
        CHECK_ORDERED(schedule(runtime));
    }
    return suite_result();
}
