/* Threads that the program lets go are there again for the next region. */
#include "suite.h"
static int counter;
#pragma omp threadprivate(counter)
int main(void)
{
    while (more_rounds()) {
        int sum = 0;
#pragma omp parallel reduction(+ : sum)
        sum += 1;
        CHECK(sum >= 1);
        omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#pragma omp parallel
        counter = 5;
        omp_pause_resource_all(omp_pause_hard);
        sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
        for (int i = 0; i < 100; i++)
            sum += i;
        CHECK(sum == 4950);
    }
    return suite_result();
}
