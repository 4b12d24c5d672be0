/* Several sections constructs in a row without barriers, and a loop after them. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int runs[6] = {0}, sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp sections nowait
            {
                runs[0]++;
#pragma omp section
                runs[1]++;
#pragma omp section
                runs[2]++;
            }
#pragma omp sections nowait
            {
                runs[3]++;
#pragma omp section
                runs[4]++;
#pragma omp section
                runs[5]++;
            }
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < 30; i++)
                sum += i;
        }
        for (int i = 0; i < 6; i++)
            CHECK(runs[i] == 1);
        CHECK(sum == 435);
    }
    return suite_result();
}
