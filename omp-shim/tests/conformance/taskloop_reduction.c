/* Reductions on taskloop, and parallel master taskloop (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 0, squares = 0;
#pragma omp parallel
#pragma omp single
#pragma omp taskloop reduction(+ : sum) grainsize(4)
        for (int i = 0; i < 100; i++)
            sum += i;
        CHECK(sum == 4950);
#pragma omp parallel master taskloop reduction(+ : squares)
        for (int i = 0; i < 20; i++)
            squares += i * i;
        CHECK(squares == 2470);
    }
    return suite_result();
}
