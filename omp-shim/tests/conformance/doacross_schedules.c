/* A chain over two iterations under every schedule, signed and unsigned long long, the latter beyond what a
 * signed loop can count. */
#include "suite_loops.h"
enum { N = 6 };
static volatile unsigned long long from = ~0ULL - 1000;
static volatile long many = N;
#define CHECK_CHAIN(schedule_clause)                                                               \
    do {                                                                                           \
        const unsigned long long first = from, end = first + N;                                    \
        const long count = many;                                                                   \
        static long a[N], b[N];                                                                    \
        memset(a, 0, sizeof a);                                                                    \
        memset(b, 0, sizeof b);                                                                    \
        SUITE_PRAGMA(omp parallel)                                                                 \
        {                                                                                          \
            SUITE_PRAGMA(omp for ordered(1) schedule_clause)                                       \
            for (long i = 0; i < count; i++) {                                                     \
                SUITE_PRAGMA(omp ordered depend(sink : i - 2))                                     \
                a[i] = i < 2 ? 1 : a[i - 2] + 1;                                                   \
                SUITE_PRAGMA(omp ordered depend(source))                                           \
            }                                                                                      \
            SUITE_PRAGMA(omp for ordered(1) schedule_clause)                                       \
            for (unsigned long long i = first; i < end; i++) {                                     \
                SUITE_PRAGMA(omp ordered depend(sink : i - 2))                                     \
                b[i - first] = i - first < 2 ? 1 : b[i - first - 2] + 1;                           \
                SUITE_PRAGMA(omp ordered depend(source))                                           \
            }                                                                                      \
        }                                                                                          \
        for (int i = 0; i < N; i++)                                                                \
            CHECK(a[i] == i / 2 + 1 && b[i] == i / 2 + 1);                                         \
    } while (0)
int main(void)
{
    while (a_few_rounds()) {
        omp_set_schedule(omp_sched_dynamic, 2);
        CHECK_CHAIN(schedule(static, 1));
        CHECK_CHAIN(schedule(dynamic));
        CHECK_CHAIN(schedule(guided));
        CHECK_CHAIN(schedule(runtime));
    }
    return suite_result();
}
