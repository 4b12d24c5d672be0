/* Every thread makes tasks, in and between dynamic loops; a barrier completes them. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int done = 0;
#pragma omp parallel
        {
#pragma omp for schedule(dynamic, 2)
            for (int i = 0; i < 40; i++) {
#pragma omp task shared(done)
                {
#pragma omp atomic
                    done++;
                }
            }
            int seen;
#pragma omp atomic read
            seen = done;
            CHECK(seen == 40);
#pragma omp barrier
#pragma omp for schedule(guided)
            for (int i = 0; i < 40; i++) {
#pragma omp task shared(done)
                {
#pragma omp atomic
                    done++;
                }
#pragma omp taskwait
            }
        }
        CHECK(done == 80);
    }
    return suite_result();
}
