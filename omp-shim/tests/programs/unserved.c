/* A library with one construct, as the macro says, outside a region of its own. Returns the sum of the
 * numbers below 30 that the calling thread's team found together, in one of its threads; 0 in others. */
#include <omp.h>

#define N 30
static long sum;

#ifdef OLD_TARGET
#include <stddef.h>
void GOMP_target(int, void (*)(void *), const void *, size_t, void **, size_t *, unsigned char *);

/* Without a device the runtime calls it with what would be mapped. */
static void on_the_host(void *mapped)
{
    long *found = *(long **)mapped;
    for (int i = 0; i < N; i++) *found += i;
}
#endif

long unserved(void)
{
#if defined TASKS /* is served, loaded late too */
#pragma omp single
    for (int i = 0; i < N; i++) {
#pragma omp task depend(inout : sum)
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
#elif defined OLD_TARGET /* as gcc before 7 emitted it */
#pragma omp barrier
#pragma omp master
    {
        long found = 0;
        void *mapped[] = {&found};
        size_t size = sizeof found;
        unsigned char kind = 3;
        GOMP_target(-1, on_the_host, 0, 1, mapped, &size, &kind);
        sum = found;
    }
#pragma omp barrier
#elif defined DOACROSS_ULL
    static volatile unsigned long long from = ~0ULL - 1000;
    const unsigned long long first = from, end = first + N;
#pragma omp for ordered(1) schedule(runtime)
    for (unsigned long long i = first; i < end; i++) {
#pragma omp ordered depend(sink : i - 1)
        sum += (long)(i - first);
#pragma omp ordered depend(source)
    }
#endif
    return omp_get_thread_num() ? 0 : sum;
}
