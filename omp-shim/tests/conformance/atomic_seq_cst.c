/* seq_cst atomics: of two threads that announce themselves, not both see nobody. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int here[2] = {0}, saw[2] = {1, 1}, team = 0;
#pragma omp parallel
        {
            int me = omp_get_thread_num();
#pragma omp master
            team = omp_get_num_threads();
            if (me < 2) {
#pragma omp atomic write seq_cst
                here[me] = 1;
#pragma omp atomic read seq_cst
                saw[me] = here[1 - me];
            }
        }
        if (team >= 2)
            CHECK(saw[0] || saw[1]);
    }
    return suite_result();
}
