/* cancel taskgroup: a search that stops when one task has found it. */
#include "suite.h"
int main(int argc, char **argv)
{
    (void)argc;
    suite_require_environment("OMP_CANCELLATION", "true", argv);
    while (more_rounds()) {
        int found = -1, after = 0;
#pragma omp parallel
#pragma omp single
        {
#pragma omp taskgroup
            for (int i = 0; i < 60; i++) {
#pragma omp task firstprivate(i) shared(found)
                {
#pragma omp cancellation point taskgroup
                    if (i == 10) {
#pragma omp atomic write
                        found = i;
#pragma omp cancel taskgroup
                    }
                }
            }
#pragma omp task shared(after)
            after = 1;
        }
        CHECK(found == 10 && after == 1);
    }
    return suite_result();
}
