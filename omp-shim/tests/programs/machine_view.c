/* What a program sees of the machine: the number of CPUs, before and within its first region, and of threads. */
#include <omp.h>
#include <stdio.h>

int main(void)
{
    int first = omp_get_num_procs(), within = 0, team = 0;
#pragma omp parallel
#pragma omp single
    {
        within = omp_get_num_procs();
        team = omp_get_num_threads();
    }
    printf("%d %d %d\n", first, within, team);
    return 0;
}
