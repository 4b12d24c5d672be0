/* One region whose threads take chunks of a loop until told to stop. Answers lines of input:
 *
 *   who        numbers of the threads that work, as far as 50 ms of watching tell
 *   parked T   the time (CLOCK_MONOTONIC, ns) at which thread T last ended an iteration
 *   begun T S  how many iterations thread T has begun after time S, of the last 1024
 *   resumed T  the time at which thread T first began one after its longest pause of over 20 ms
 *   stop       lets the region end
 *
 * usage: parking KIND MICROSECONDS, where KIND is the loop's schedule and an iteration takes so long.
 * At the end it prints how many iterations were done, and how often one was done twice or never. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define THREADS 64
#define ITERATIONS 4000000

#define REMEMBERED 1024

static struct {
    _Alignas(128) volatile long long count, last_ns, resumed_ns, previous, begun_ns[REMEMBERED];
} threads[THREADS];
static volatile int stop, started;
static unsigned char done[ITERATIONS];
static int iteration_us;

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void iteration(long i)
{
    int t = omp_get_thread_num();
    done[i]++;
    if (stop) return;
    long long begin = now_ns();
    threads[t].begun_ns[threads[t].count % REMEMBERED] = begin;
    if (threads[t].last_ns && begin - threads[t].last_ns > 20000000) threads[t].resumed_ns = begin;
    while (now_ns() - begin < iteration_us * 1000ll) {}
    threads[t].last_ns = now_ns();
    threads[t].count++;
    started = 1;
}

static void *answer(void *unused)
{
    char line[100], word[100];
    while (!started) usleep(100);
    while (fgets(line, sizeof line, stdin)) {
        int t = 0;
        long long since = 0;
        word[0] = 0;
        sscanf(line, "%99s %d %lld", word, &t, &since);
        if (!strcmp(word, "who")) {
            for (int i = 0; i < THREADS; i++) threads[i].previous = threads[i].count;
            usleep(50000);
            for (int i = 0; i < THREADS; i++)
                if (threads[i].count != threads[i].previous) printf("%d ", i);
            printf("\n");
        } else if (!strcmp(word, "parked")) {
            printf("%lld\n", threads[t].last_ns);
        } else if (!strcmp(word, "begun")) {
            int begun = 0;
            for (int i = 0; i < REMEMBERED; i++) begun += threads[t].begun_ns[i] > since;
            printf("%d\n", begun);
        } else if (!strcmp(word, "resumed")) {
            printf("%lld\n", threads[t].resumed_ns);
        } else {
            stop = 1;
            break;
        }
        fflush(stdout);
    }
    stop = 1;
    return unused;
}

static volatile unsigned long long ull_zero, ull_many = ITERATIONS;

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "dynamic";
    iteration_us = argc > 2 ? atoi(argv[2]) : 20;
    pthread_t control;
    if (pthread_create(&control, 0, answer, 0)) return 1;
    if (!strcmp(kind, "combined")) {
#pragma omp parallel for schedule(dynamic)
        for (long i = 0; i < ITERATIONS; i++) iteration(i);
    } else if (!strcmp(kind, "combined_runtime")) {
#pragma omp parallel for schedule(runtime)
        for (long i = 0; i < ITERATIONS; i++) iteration(i);
    } else {
#pragma omp parallel
        {
            if (!strcmp(kind, "dynamic")) {
#pragma omp for schedule(dynamic)
                for (long i = 0; i < ITERATIONS; i++) iteration(i);
            } else if (!strcmp(kind, "monotonic")) {
#pragma omp for schedule(monotonic : dynamic)
                for (long i = 0; i < ITERATIONS; i++) iteration(i);
            } else if (!strcmp(kind, "runtime")) {
#pragma omp for schedule(runtime)
                for (long i = 0; i < ITERATIONS; i++) iteration(i);
            } else if (!strcmp(kind, "ull")) {
#pragma omp for schedule(dynamic)
                for (unsigned long long i = ull_zero; i < ull_many; i++) iteration(i);
            } else if (!strcmp(kind, "int")) {
#pragma omp for schedule(dynamic)
                for (int i = 0; i < ITERATIONS; i++) iteration(i);
            } else if (!strcmp(kind, "unsigned")) {
#pragma omp for schedule(dynamic)
                for (unsigned i = 0; i < ITERATIONS; i++) iteration(i);
            } else if (!strcmp(kind, "ordered")) {
#pragma omp for schedule(dynamic, 200) ordered
                for (long i = 0; i < ITERATIONS; i++) {
                    iteration(i);
#pragma omp ordered
                    ;
                }
            }
        }
    }
    long sum = 0, wrong = 0;
    for (long i = 0; i < ITERATIONS; i++) {
        sum += done[i];
        wrong += done[i] != 1;
    }
    printf("iterations %ld wrong %ld\n", sum, wrong);
    fflush(stdout);
    return 0;
}
