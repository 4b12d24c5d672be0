/* Regions as gcc before 4.9 emitted them, called by hand. */
#include <omp.h>
#include <stdbool.h>
#include <stdio.h>

void GOMP_parallel_start(void (*)(void *), void *, unsigned);
void GOMP_parallel_loop_dynamic_start(void (*)(void *), void *, unsigned, long, long, long, long);
void GOMP_parallel_end(void);
bool GOMP_loop_dynamic_next(long *, long *);
void GOMP_loop_end_nowait(void);

static long sum;

static void body(void *data)
{
    (void)data;
    __atomic_fetch_add(&sum, 1000000, __ATOMIC_RELAXED);
}

static void loop(void *data)
{
    long from, to;
    (void)data;
    while (GOMP_loop_dynamic_next(&from, &to))
        for (long i = from; i < to; i++) __atomic_fetch_add(&sum, i, __ATOMIC_RELAXED);
    GOMP_loop_end_nowait();
}

int main(void)
{
    for (int i = 0; i < 5; i++) {
        GOMP_parallel_start(body, 0, 2);
        body(0);
        GOMP_parallel_end();
        GOMP_parallel_loop_dynamic_start(loop, 0, 0, 0, 100, 1, 3);
        loop(0);
        GOMP_parallel_end();
    }
    printf("%ld\n", sum);
    return 0;
}
