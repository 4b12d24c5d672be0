/* 4,000,000 iterations of next to nothing, in chunks of one; prints how many were done, and how many ns
 * of the clock that took. */
#include <omp.h>
#include <stdio.h>
#include <time.h>

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

int main(void)
{
    long done = 0;
#pragma omp parallel reduction(+ : done)
    done = 0;
    long long start = now_ns();
#pragma omp parallel for schedule(monotonic : dynamic) reduction(+ : done)
    for (int i = 0; i < 4000000; i++) done++;
    printf("%ld %lld\n", done, now_ns() - start);
    return 0;
}
