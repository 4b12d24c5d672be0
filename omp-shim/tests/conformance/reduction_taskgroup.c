/* task_reduction on taskgroup (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 5, product = 1;
#pragma omp parallel
#pragma omp single
        {
#pragma omp taskgroup task_reduction(+ : sum) task_reduction(* : product)
            {
                for (int i = 0; i < 30; i++) {
#pragma omp task in_reduction(+ : sum) in_reduction(* : product) firstprivate(i)
                    {
                        sum += i;
                        if (i % 10 == 0)
                            product *= 2;
                    }
                }
            }
            CHECK(sum == 440 && product == 8);
        }
    }
    return suite_result();
}
