/* A region in a region: every thread of the outer one gets a team of its own. */
#include "suite.h"
int main(void)
{
    omp_set_max_active_levels(2);
    while (more_rounds()) {
        int outer = 0, inner = 0, expected = 0;
#pragma omp parallel num_threads(2) reduction(+ : outer, inner, expected)
        {
            outer++;
            int mine = 0, team = 0;
#pragma omp parallel num_threads(3) shared(mine, team)
            {
#pragma omp atomic
                mine++;
#pragma omp single
                team = omp_get_num_threads();
                CHECK(omp_get_level() == 2);
                CHECK(omp_get_ancestor_thread_num(2) == omp_get_thread_num());
            }
            inner += mine;
            expected += team;
        }
        CHECK(outer == 2 && inner == expected && inner >= 2);
    }
    return suite_result();
}
