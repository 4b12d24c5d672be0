/* Many short dynamic loops and then a long one: prints how many iterations of the last short ones, and of
 * the long one after its first 100 ms, threads other than the first have done, and whether any iteration was left
 * out.
 *
 * usage: long_after_short */
#include <omp.h>
#include <stdio.h>
#include <time.h>

#define SHORT_LOOPS 2000
#define SHORT 32
#define LONG 20000

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static int work(int microseconds)
{
    long long begin = now_ns();
    while (now_ns() - begin < microseconds * 1000ll) {}
    return omp_get_thread_num() != 0;
}

int main(void)
{
    long others = 0, done = 0, late_others = 0;
    for (int l = 0; l < SHORT_LOOPS; l++) {
        long by_others = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : by_others, done)
        for (int i = 0; i < SHORT; i++) {
            by_others += work(2);
            done++;
        }
        if (l >= SHORT_LOOPS / 2) others += by_others;
    }
    long long begin = now_ns();
#pragma omp parallel for schedule(dynamic) reduction(+ : late_others, done)
    for (int i = 0; i < LONG; i++) {
        long long started = now_ns();
        int other = work(20);
        if (started - begin > 100000000) late_others += other;
        done++;
    }
    printf("short %ld long %ld left out %ld\n", others, late_others,
           (long)SHORT_LOOPS * SHORT + LONG - done);
    return 0;
}
