/* Regions within regions have the sizes that their clauses say. */
#include "suite.h"
int main(void)
{
    omp_set_dynamic(0);
    omp_set_max_active_levels(2);
    while (a_few_rounds()) {
        int total = 0, inner = 0, third = 0;
#pragma omp parallel num_threads(3) reduction(+ : total, inner, third)
        {
            int me = omp_get_thread_num();
            total++;
            CHECK(omp_get_num_threads() == 3);
#pragma omp parallel num_threads(2) reduction(+ : inner, third)
            {
                inner++;
                CHECK(omp_get_num_threads() == 2 && omp_get_level() == 2);
                CHECK(omp_get_ancestor_thread_num(1) == me);
                CHECK(omp_get_team_size(1) == 3 && omp_get_team_size(2) == 2);
#pragma omp barrier
#pragma omp parallel num_threads(4) reduction(+ : third)
                {
                    CHECK(omp_get_num_threads() == 1 && omp_get_level() == 3);
                    third++;
                }
            }
#pragma omp barrier
#pragma omp parallel for num_threads(2) schedule(dynamic) reduction(+ : inner)
            for (int i = 0; i < 10; i++)
                inner++;
        }
        CHECK(total == 3 && inner == 6 + 30 && third == 6);
    }
    return suite_result();
}
