/* mutexinoutset: the tasks exclude one another, in any order; and depobj (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int sum = 0, inside = 0, result = -1;
        omp_depend_t on_sum;
#pragma omp parallel
#pragma omp single
        {
#pragma omp task depend(out : sum)
            sum = 1;
            for (int i = 0; i < 20; i++) {
#pragma omp task depend(mutexinoutset : sum) shared(inside)
                {
                    CHECK(inside == 0);
                    inside = 1;
                    sum += 2;
                    inside = 0;
                }
            }
#pragma omp depobj(on_sum) depend(in : sum)
#pragma omp task depend(depobj : on_sum)
            result = sum;
#pragma omp taskwait
#pragma omp depobj(on_sum) destroy
        }
        CHECK(result == 41);
    }
    return suite_result();
}
