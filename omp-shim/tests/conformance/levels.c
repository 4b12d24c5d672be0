/* What a program can ask about its place among teams is consistent. */
#include "suite.h"
int main(void)
{
    omp_set_max_active_levels(2);
    while (more_rounds()) {
        CHECK(omp_get_level() == 0 && !omp_in_parallel() && omp_get_num_threads() == 1);
        CHECK(omp_get_team_size(0) == 1 && omp_get_ancestor_thread_num(0) == 0);
#pragma omp parallel
        {
            int me = omp_get_thread_num(), team = omp_get_num_threads();
            CHECK(me >= 0 && me < team && omp_get_level() == 1);
            CHECK(omp_get_team_size(1) == team && omp_get_ancestor_thread_num(1) == me);
            CHECK(omp_get_active_level() == (team > 1));
            CHECK(omp_in_parallel() == (team > 1));
#pragma omp parallel num_threads(2)
            {
                CHECK(omp_get_level() == 2 && omp_get_team_size(1) == team);
                CHECK(omp_get_ancestor_thread_num(1) == me);
                CHECK(omp_get_team_size(3) == -1 && omp_get_ancestor_thread_num(3) == -1);
            }
        }
    }
    return suite_result();
}
