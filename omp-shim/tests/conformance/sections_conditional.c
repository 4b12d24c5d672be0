/* sections with lastprivate(conditional:) and with a reduction over tasks (OpenMP 5.0). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 leaves a conditional lastprivate of sections undefined"
#endif
int main(void)
{
    while (more_rounds()) {
        int last = -1, first_only = -1;
        long sum = 0;
#pragma omp parallel
        {
#pragma omp sections lastprivate(conditional : last, first_only)
            {
                {
                    last = 1;
                    first_only = 7;
                }
#pragma omp section
                last = 2;
#pragma omp section
                if (sum != 0)
                    last = 3;
            }
#pragma omp sections reduction(task, + : sum)
            {
                for (int i = 0; i < 10; i++) {
#pragma omp task in_reduction(+ : sum) firstprivate(i)
                    sum += i;
                }
#pragma omp section
                sum += 100;
            }
        }
        CHECK(last == 2 && first_only == 7 && sum == 145);
    }
    return suite_result();
}
