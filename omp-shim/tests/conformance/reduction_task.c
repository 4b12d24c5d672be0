/* reduction(task,) on parallel and for, with in_reduction in tasks (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 0, loops = 0;
#pragma omp parallel reduction(task, + : sum)
        {
#pragma omp single
            for (int i = 1; i <= 40; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
                sum += i;
            }
        }
        CHECK(sum == 820);
#pragma omp parallel for reduction(task, + : loops) schedule(static)
        for (int i = 0; i < 20; i++) {
            loops++;
#pragma omp task in_reduction(+ : loops)
            loops += 10;
        }
        CHECK(loops == 220);
    }
    return suite_result();
}
