/* parallel sections with firstprivate, lastprivate and a reduction; fewer sections than threads too. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int seed = 3, last = 0, sum = 10;
#pragma omp parallel sections firstprivate(seed) lastprivate(last) reduction(+ : sum)
        {
            {
                sum += seed;
                last = 1;
            }
#pragma omp section
            {
                sum += seed * 2;
                last = 2;
            }
#pragma omp section
            {
                sum += seed * 3;
                last = 3;
            }
        }
        CHECK(sum == 28 && last == 3);
        int only = 0;
#pragma omp parallel sections
        {
            only++;
        }
        CHECK(only == 1);
    }
    return suite_result();
}
