/* One region with a barrier; with OWN_RSEQ in a program that brings an area for restartable sequences
 * of its own, as programs did before the C library had one. */
#include <omp.h>
#include <stdio.h>

#ifdef OWN_RSEQ
__thread struct {
    unsigned cpu_id_start, cpu_id;
} __rseq_abi;
#endif

int main(void)
{
    int seen[3] = {0}, all = 0;
#pragma omp parallel num_threads(3) reduction(+ : all)
    {
        seen[omp_get_thread_num()] = 1;
#pragma omp barrier
        all += seen[0] + seen[1] + seen[2];
    }
#ifdef OWN_RSEQ
    all += (int)__rseq_abi.cpu_id;
#endif
    printf("%d\n", all);
    return 0;
}
