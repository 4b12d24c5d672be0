/* Two threads hand short work to each other for so many seconds, and wait for it by spinning; prints how often. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static volatile double sink;

static void work(void)
{
    for (int i = 0; i < 2000; i++)
        sink = i;
}

int main(int argc, char **argv)
{
    int turn = 0;
    long times = 0;
    double until_s = omp_get_wtime() + (argc > 1 ? atof(argv[1]) : 1);
    while (omp_get_wtime() < until_s) {
#pragma omp parallel num_threads(2)
        for (int round = 0; round < 50; round++) {
            int me = omp_get_thread_num();
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
                ;
            work();
            __atomic_store_n(&turn, !me, __ATOMIC_RELEASE);
        }
        times += 100;
    }
    printf("%ld\n", times);
    return 0;
}
