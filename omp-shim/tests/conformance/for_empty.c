/* Loops without an iteration, and with fewer iterations than threads. */
#include "suite.h"
int main(void)
{
    volatile int none = 0, one = 1;
    while (more_rounds()) {
        int runs = 0, singles = 0, last = -1;
#pragma omp parallel reduction(+ : runs, singles)
        {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < none; i++)
                runs++;
#pragma omp for schedule(guided, 4)
            for (unsigned long long i = 5; i < (unsigned long long)none; i++)
                runs++;
#pragma omp for schedule(static) nowait
            for (long i = 0; i > none; i--)
                runs++;
#pragma omp for schedule(runtime)
            for (int i = 3; i < none; i++)
                runs++;
#pragma omp for collapse(2) schedule(dynamic)
            for (int i = 0; i < 3; i++)
                for (int j = 0; j < none; j++)
                    runs++;
#pragma omp for schedule(dynamic) lastprivate(last)
            for (int i = 0; i < one; i++) {
                singles++;
                last = i;
            }
        }
        CHECK(runs == 0);
        CHECK(singles == 1);
        CHECK(last == 0);
    }
    return suite_result();
}
