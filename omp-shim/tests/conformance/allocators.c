/* Memory of OpenMP's allocators, for each thread (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 0, team = 0;
#pragma omp parallel reduction(+ : sum)
        {
            int *mine = omp_alloc(64 * sizeof *mine, omp_default_mem_alloc);
            CHECK(mine != NULL);
            for (int i = 0; i < 64; i++)
                mine[i] = i;
#pragma omp barrier
            for (int i = 0; i < 64; i++)
                sum += mine[i];
            omp_free(mine, omp_default_mem_alloc);
#pragma omp single
            team = omp_get_num_threads();
        }
        CHECK(sum == 2016 * team);
    }
    return suite_result();
}
