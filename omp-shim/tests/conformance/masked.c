/* masked, with a filter (OpenMP 5.1). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int first = 0, last = 0, nobody = 0, size = 0;
#pragma omp parallel
        {
#pragma omp masked
            first++;
#pragma omp masked filter(omp_get_num_threads() - 1)
            {
                last++;
                size = omp_get_num_threads();
                CHECK(omp_get_thread_num() == size - 1);
            }
#pragma omp masked filter(omp_get_num_threads())
            nobody++;
        }
        CHECK(first == 1 && last == 1 && nobody == 0 && size > 0);
    }
    return suite_result();
}
