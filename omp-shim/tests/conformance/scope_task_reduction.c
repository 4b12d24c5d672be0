/* scope with a reduction over tasks (OpenMP 5.1). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 0;
        int team = 0;
#pragma omp parallel
        {
#pragma omp single
            team = omp_get_num_threads();
#pragma omp scope reduction(task, + : sum)
            {
                sum += 1000;
                for (int i = 1; i <= 4; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
                    sum += i;
                }
            }
            CHECK(sum == 1010L * team);
        }
    }
    return suite_result();
}
