/* Tasks and loops outside any parallel region are run by the one thread. */
#include "suite.h"
int main(void)
{
    static int sum;
    while (more_rounds()) {
        int count = 0;
        sum = 0;
#pragma omp task shared(count)
        count++;
#pragma omp taskwait
        CHECK(count == 1);
#pragma omp for schedule(dynamic)
        for (int i = 0; i < 10; i++)
            sum += i;
#pragma omp for schedule(guided) reduction(+ : sum)
        for (int i = 0; i < 10; i++)
            sum += i;
#pragma omp sections
        {
            sum++;
#pragma omp section
            sum++;
        }
#pragma omp single
        sum++;
#pragma omp barrier
        CHECK(sum == 93 && omp_get_num_threads() == 1 && !omp_in_parallel());
    }
    return suite_result();
}
