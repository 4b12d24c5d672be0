/* threadprivate data within a region: each thread has its own. */
#include "suite.h"
static int counter;
#pragma omp threadprivate(counter)
static void count(int times)
{
    for (int i = 0; i < times; i++)
        counter++;
}
int main(void)
{
    while (more_rounds()) {
        counter = -5;
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            counter = me;
#pragma omp barrier
            count(10 + me);
#pragma omp barrier
            CHECK(counter == 10 + 2 * me);
        }
        CHECK(counter == 10);
    }
    return suite_result();
}
