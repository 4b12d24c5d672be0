/* cancel sections. */
#include "suite.h"
int main(int argc, char **argv)
{
    (void)argc;
    suite_require_environment("OMP_CANCELLATION", "true", argv);
    while (more_rounds()) {
        int begun = 0, ended = 0;
#pragma omp parallel
        {
#pragma omp sections
            {
                {
#pragma omp atomic
                    begun++;
#pragma omp cancel sections
#pragma omp atomic
                    ended++;
                }
#pragma omp section
                {
#pragma omp atomic
                    begun++;
#pragma omp cancellation point sections
                }
            }
        }
        CHECK(begun >= 1 && begun <= 2 && ended == 0);
    }
    return suite_result();
}
