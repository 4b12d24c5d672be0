/* cancel parallel: the threads leave at their next cancellation point. */
#include "suite.h"
int main(int argc, char **argv)
{
    (void)argc;
    suite_require_environment("OMP_CANCELLATION", "true", argv);
    CHECK(omp_get_cancellation());
    while (more_rounds()) {
        int past = 0;
#pragma omp parallel
        {
            if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
            }
#pragma omp barrier
#pragma omp atomic
            past++;
        }
        CHECK(past == 0);
    }
    return suite_result();
}
