/* A library with one construct, as the macro says, outside a region of its own. Returns the sum of the
 * numbers below 30 that the calling thread's team found together, in one of its threads; 0 in others. */
#include <omp.h>

#define N 30
static long sum;

long unserved(void)
{
#if defined ORDERED
#pragma omp for ordered schedule(static, 1)
    for (int i = 0; i < N; i++) {
#pragma omp ordered
        sum += i;
    }
#elif defined ORDERED_DYNAMIC
#pragma omp for ordered schedule(dynamic, 2)
    for (int i = 0; i < N; i++) {
#pragma omp ordered
        sum += i;
    }
#elif defined DOACROSS
#pragma omp for ordered(1) schedule(static, 1)
    for (int i = 0; i < N; i++) {
#pragma omp ordered depend(sink : i - 1)
        sum += i;
#pragma omp ordered depend(source)
    }
#elif defined SCOPE
    static long found;
#pragma omp scope reduction(task, + : found)
    found += 1;
#pragma omp single
    sum = found == omp_get_num_threads() ? N * (N - 1) / 2 : found;
#elif defined TARGET
#pragma omp barrier
#pragma omp master
    {
        long found = 0;
#pragma omp target map(tofrom : found)
        for (int i = 0; i < N; i++) found += i;
        sum = found;
    }
#pragma omp barrier
#endif
    return omp_get_thread_num() ? 0 : sum;
}
