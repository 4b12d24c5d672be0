/* What a member sets is its own, and what regions within it have. */
#include "suite.h"
int main(void)
{
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    while (a_few_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num(), inner = 0;
            omp_sched_t kind;
            int chunk;
            omp_set_num_threads(1 + me % 3);
            omp_set_schedule(me % 2 ? omp_sched_dynamic : omp_sched_static, 1 + me);
            omp_set_max_active_levels(me % 2 ? 2 : 1);
            omp_set_dynamic(0);
#pragma omp barrier
            CHECK(omp_get_max_threads() == 1 + me % 3);
            omp_get_schedule(&kind, &chunk);
            CHECK((kind & ~omp_sched_monotonic) == (me % 2 ? omp_sched_dynamic : omp_sched_static) && chunk == 1 + me);
#pragma omp parallel reduction(+ : inner)
            {
                inner++;
                omp_get_schedule(&kind, &chunk);
                CHECK(chunk == 1 + me);
            }
            CHECK(inner >= 1 && inner <= 1 + me % 3);
#pragma omp barrier
            omp_set_max_active_levels(2);
        }
        CHECK(omp_get_max_active_levels() == 2);
    }
    return suite_result();
}
