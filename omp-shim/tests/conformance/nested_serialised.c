/* Nested regions that are not active have one thread, and their constructs still work. */
#include "suite.h"
int main(void)
{
    omp_set_max_active_levels(1);
    while (more_rounds()) {
        int sum = 0, team = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp single
            team = omp_get_num_threads();
#pragma omp parallel reduction(+ : sum)
            {
                /* Around a team of one thread no region is active, so that this one may be. */
                if (omp_get_team_size(1) > 1)
                    CHECK(omp_get_num_threads() == 1 && omp_get_thread_num() == 0);
                CHECK(omp_get_level() == 2 && omp_get_active_level() <= 1);
#pragma omp for schedule(dynamic)
                for (int i = 0; i < 10; i++)
                    sum += i;
            }
        }
        CHECK(sum == 45 * team);
    }
    return suite_result();
}
