/* doacross loops with a reduction over tasks, signed and unsigned long long (OpenMP 5.0). */
#include "suite_loops.h"
enum { N = 8 };
static volatile unsigned long long from = ~0ULL - 1000;
#define CHECK_CHAIN(schedule_clause)                                                               \
    do {                                                                                           \
        const unsigned long long first = from, end = first + N;                                    \
        static long a[N], b[N];                                                                    \
        long sum = 0, sum_ull = 0;                                                                 \
        memset(a, 0, sizeof a);                                                                    \
        memset(b, 0, sizeof b);                                                                    \
        SUITE_PRAGMA(omp parallel)                                                                 \
        {                                                                                          \
            SUITE_PRAGMA(omp for ordered(1) schedule_clause reduction(task, + : sum))              \
            for (int i = 0; i < N; i++) {                                                          \
                SUITE_PRAGMA(omp ordered depend(sink : i - 2))                                     \
                a[i] = i < 2 ? 1 : a[i - 2] + 1;                                                   \
                SUITE_PRAGMA(omp ordered depend(source))                                           \
                SUITE_PRAGMA(omp task in_reduction(+ : sum))                                       \
                sum += i;                                                                          \
            }                                                                                      \
            SUITE_PRAGMA(omp for ordered(1) schedule_clause reduction(task, + : sum_ull))          \
            for (unsigned long long i = first; i < end; i++) {                                     \
                SUITE_PRAGMA(omp ordered depend(sink : i - 2))                                     \
                b[i - first] = i - first < 2 ? 1 : b[i - first - 2] + 1;                           \
                SUITE_PRAGMA(omp ordered depend(source))                                           \
                sum_ull += (long)(i - first);                                                      \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < N; i++)                                                                \
            CHECK(a[i] == i / 2 + 1 && b[i] == i / 2 + 1);                                         \
        CHECK(sum == N * (N - 1) / 2 && sum_ull == N * (N - 1) / 2);                               \
    } while (0)
int main(void)
{
    while (a_few_rounds()) {
        omp_set_schedule(omp_sched_static, 1);
        CHECK_CHAIN(schedule(static, 1));
        CHECK_CHAIN(schedule(dynamic));
        CHECK_CHAIN(schedule(runtime));
    }
    return suite_result();
}
