/* if: a region whose condition is false has one thread. */
#include "suite.h"
int main(void)
{
    volatile int yes = 1, no = 0;
    while (more_rounds()) {
        int team = 0, sum = 0;
#pragma omp parallel if (no) reduction(+ : team)
        {
            team++;
            CHECK(omp_get_num_threads() == 1);
        }
        CHECK(team == 1);
#pragma omp parallel for if (parallel : no) schedule(dynamic) reduction(+ : sum)
        for (int i = 0; i < 20; i++)
            sum += i + omp_get_thread_num();
        CHECK(sum == 190);
#pragma omp parallel if (yes) num_threads(2)
        CHECK(omp_get_num_threads() <= 2);
    }
    return suite_result();
}
