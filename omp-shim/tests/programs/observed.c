/* Prints the sum of what ten regions of each of three kinds compute: a dynamic loop of 103 iterations, a static
 * one of 50, and a barrier at which all threads but one wait for 5 ms, however late they come. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    long sum = 0;
    for (int round = 0; round < 10; round++) {
        int arrived = 0;
#pragma omp parallel for schedule(dynamic, 2) reduction(+ : sum)
        for (int i = 0; i < 103; i++) sum += i;
#pragma omp parallel for schedule(static) reduction(+ : sum)
        for (int i = 0; i < 50; i++) sum += i;
#pragma omp parallel
        {
            if (omp_get_thread_num() != 1) {
                __atomic_fetch_add(&arrived, 1, __ATOMIC_RELAXED);
            } else {
                while (__atomic_load_n(&arrived, __ATOMIC_RELAXED) < omp_get_num_threads() - 1) usleep(100);
                usleep(5000);
            }
#pragma omp barrier
#pragma omp atomic
            sum += 1;
        }
    }
    printf("%ld\n", sum);
    return 0;
}
