/* The allocate clause: private data and reductions in memory of an allocator (OpenMP 5.0). */
#include "suite.h"
enum { N = 90 };
int main(void)
{
#ifdef __clang__ /* libomp 14 crashes with an allocator that has traits */
    const omp_allocator_handle_t allocator = omp_default_mem_alloc;
#else
    const omp_alloctrait_t traits[] = {{omp_atk_alignment, 128}};
    const omp_allocator_handle_t allocator = omp_init_allocator(omp_default_mem_space, 1, traits);
    CHECK(allocator != omp_null_allocator);
#endif
    while (more_rounds()) {
        int block[32], step = 3, team = 0;
        long sum = 0;
#pragma omp parallel private(block) firstprivate(step) allocate(allocator : block, step)
        {
#pragma omp single
            team = omp_get_num_threads();
            for (int i = 0; i < 32; i++)
                block[i] = omp_get_thread_num() * step;
#pragma omp barrier
            for (int i = 0; i < 32; i++)
                CHECK(block[i] == omp_get_thread_num() * 3);
#pragma omp for schedule(dynamic, 4) reduction(+ : sum) allocate(allocator : sum)
            for (int i = 0; i < N; i++)
                sum += i;
        }
        CHECK(sum == N * (N - 1) / 2 && team > 0);
    }
#ifndef __clang__
    omp_destroy_allocator(allocator);
#endif
    return suite_result();
}
