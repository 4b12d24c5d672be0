/* Settings that a program makes are what it reads back, also inside regions. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        omp_sched_t kind;
        int chunk;
        omp_set_schedule(omp_sched_guided, 5);
        omp_get_schedule(&kind, &chunk);
        CHECK((kind & ~omp_sched_monotonic) == omp_sched_guided && chunk == 5);
        omp_set_dynamic(1);
        CHECK(omp_get_dynamic());
        omp_set_max_active_levels(3);
        CHECK(omp_get_max_active_levels() == 3);
        CHECK(omp_get_thread_limit() >= 1 && omp_get_num_procs() >= 1);
#pragma omp parallel
        {
            CHECK(omp_get_dynamic());
            omp_set_num_threads(2);
            CHECK(omp_get_max_threads() == 2);
        }
        omp_set_dynamic(0);
        CHECK(!omp_get_dynamic());
    }
    return suite_result();
}
