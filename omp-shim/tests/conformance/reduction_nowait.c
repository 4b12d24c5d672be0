/* Reductions of consecutive loops without a barrier between them. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long a = 0, b = 0, c = 0;
#pragma omp parallel
        {
#pragma omp for schedule(dynamic) reduction(+ : a) nowait
            for (int i = 0; i < 100; i++)
                a += i;
#pragma omp for schedule(static) reduction(+ : b) nowait
            for (int i = 0; i < 100; i++)
                b += 2 * i;
#pragma omp sections reduction(+ : c)
            {
                c += 1;
#pragma omp section
                c += 10;
#pragma omp section
                c += 100;
            }
        }
        CHECK(a == 4950 && b == 9900 && c == 111);
    }
    return suite_result();
}
