/* The allocate directive: a variable of its own for each thread (OpenMP 5.0; gcc 12 has it for Fortran only). */
#include "suite.h"
static long shared;
#pragma omp allocate(shared)
int main(void)
{
    while (more_rounds()) {
        int team = 0;
        shared = 0;
#pragma omp parallel
        {
            int mine[16];
#pragma omp allocate(mine) allocator(omp_default_mem_alloc)
            for (int i = 0; i < 16; i++)
                mine[i] = omp_get_thread_num();
#pragma omp barrier
            for (int i = 0; i < 16; i++)
                CHECK(mine[i] == omp_get_thread_num());
#pragma omp atomic
            shared += mine[0] + 1;
#pragma omp single
            team = omp_get_num_threads();
        }
        CHECK(shared == (long)team * (team + 1) / 2);
    }
    return suite_result();
}
