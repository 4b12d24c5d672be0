/* barrier: nobody goes on before all have come. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int arrived = 0;
#pragma omp parallel
        {
            int team = omp_get_num_threads();
            for (int turn = 1; turn <= 30; turn++) {
#pragma omp atomic
                arrived++;
#pragma omp barrier
                int seen;
#pragma omp atomic read
                seen = arrived;
                CHECK(seen == turn * team);
#pragma omp barrier
            }
        }
    }
    return suite_result();
}
