/* The schedule of `schedule(runtime)` may change between loops, and back. */
#include "suite.h"
int main(void)
{
    static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided,
                                        omp_sched_auto};
    static int seen[1000];
    int round = 0;
    while (more_rounds()) {
        omp_sched_t kind = kinds[round % 4], now;
        int chunk = 1 + round % 7, size;
        round++;
        omp_set_schedule(kind, chunk);
        memset(seen, 0, sizeof seen);
#pragma omp parallel
        {
#pragma omp for schedule(runtime)
            for (int i = 0; i < 1000; i++)
#pragma omp atomic
                seen[i]++;
            omp_set_schedule(kinds[(round + 1) % 4], 3);
            omp_get_schedule(&now, &size);
            CHECK((now & ~omp_sched_monotonic) == kinds[(round + 1) % 4]);
#pragma omp barrier
#pragma omp for schedule(runtime) nowait
            for (int i = 0; i < 1000; i++)
#pragma omp atomic
                seen[i]++;
        }
        for (int i = 0; i < 1000; i++)
            CHECK(seen[i] == 2);
        omp_get_schedule(&now, &size);
        CHECK((now & ~omp_sched_monotonic) == kind);
    }
    return suite_result();
}
