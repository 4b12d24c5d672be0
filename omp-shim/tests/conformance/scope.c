/* scope, with private data and a reduction (OpenMP 5.1). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int sum = 0, team = 0;
#pragma omp parallel
        {
            int one = 1;
#pragma omp scope reduction(+ : sum)
            sum += one;
#pragma omp single
            team = omp_get_num_threads();
            CHECK(sum == team);
        }
    }
    return suite_result();
}
