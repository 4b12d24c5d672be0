/* monotonic over unsigned long long, beyond what a signed loop can count: each thread meets its iterations in
 * ascending order; nonmonotonic: each comes once. */
#include "suite_loops.h"
enum { N = 500 };
static volatile unsigned long long from = ~0ULL - 5000;
static int hits[N];
#define ASCENDING(schedule_clause)                                                                 \
    do {                                                                                           \
        unsigned long long before = 0;                                                             \
        SUITE_PRAGMA(omp for schedule_clause)                                                      \
        for (unsigned long long i = first; i < first + 3 * N; i += 3) {                            \
            CHECK(i > before);                                                                     \
            before = i;                                                                            \
            hits[(i - first) / 3]++;                                                               \
        }                                                                                          \
    } while (0)
#define EACH_ONCE(schedule_clause)                                                                 \
    do {                                                                                           \
        SUITE_PRAGMA(omp for schedule_clause)                                                      \
        for (unsigned long long i = first; i < first + 3 * N; i += 3)                              \
            hits[(i - first) / 3]++;                                                               \
    } while (0)
int main(void)
{
    while (more_rounds()) {
        const unsigned long long first = from;
        memset(hits, 0, sizeof hits);
        omp_set_schedule((omp_sched_t)(omp_sched_dynamic | omp_sched_monotonic), 3);
#pragma omp parallel
        {
            ASCENDING(schedule(monotonic : dynamic, 2));
            ASCENDING(schedule(monotonic : guided));
            ASCENDING(schedule(monotonic : runtime));
            EACH_ONCE(schedule(nonmonotonic : dynamic, 2));
            EACH_ONCE(schedule(nonmonotonic : guided));
            EACH_ONCE(schedule(nonmonotonic : runtime));
        }
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 6);
    }
    return suite_result();
}
