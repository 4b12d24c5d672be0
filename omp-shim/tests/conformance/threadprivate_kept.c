/* threadprivate data outlives a region, given dynamic adjustment is off and the size is the same. */
#include "suite.h"
static int counter;
#pragma omp threadprivate(counter)
int main(void)
{
    omp_set_dynamic(0);
#pragma omp parallel num_threads(3)
    counter = 100 * omp_get_thread_num();
    int rounds = 0;
    while (more_rounds()) {
        rounds++;
#pragma omp parallel num_threads(3)
        counter++;
    }
#pragma omp parallel num_threads(3)
    {
        CHECK(omp_get_num_threads() == 3);
        CHECK(counter == 100 * omp_get_thread_num() + rounds);
    }
    return suite_result();
}
