/* Threads that come, run a region with a dispensed loop, and go. */
#include <pthread.h>
#include <stdio.h>

static void *region(void *data)
{
    long *sum = data;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum[:1]) num_threads(2)
    for (int i = 0; i < 10; i++) sum[0] += i;
    return 0;
}

int main(void)
{
    long sum = 0;
    for (int i = 0; i < 600; i++) {
        pthread_t thread;
        if (pthread_create(&thread, 0, region, &sum) || pthread_join(thread, 0)) return 1;
    }
    printf("%ld\n", sum);
    return 0;
}
