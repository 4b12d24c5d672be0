/* A tied task stays on its thread: its threadprivate data is the same after a scheduling point. */
#include "suite.h"
static int of_thread;
#pragma omp threadprivate(of_thread)
int main(void)
{
    while (more_rounds()) {
        int done = 0;
#pragma omp parallel
        {
            of_thread = omp_get_thread_num() + 1;
#pragma omp barrier
#pragma omp single
            for (int i = 0; i < 30; i++) {
#pragma omp task shared(done)
                {
                    int before = of_thread;
                    CHECK(before == omp_get_thread_num() + 1);
#pragma omp taskyield
                    CHECK(before == of_thread);
#pragma omp atomic
                    done++;
                }
            }
        }
        CHECK(done == 30);
    }
    return suite_result();
}
