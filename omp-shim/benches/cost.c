/* Nanoseconds for a region, for a chunk of a dynamic loop or for a barrier: the median of many short batches, so
 * that what else runs on the machine does not matter much. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

#define BATCHES 101
#define CALLS 1000

static volatile int sink;

static void region(void)
{
#pragma omp parallel
    sink = 0;
}

static void loop(int n)
{
#pragma omp parallel for schedule(dynamic)
    for (int i = 0; i < n; i++) sink = i;
}

static void barriers(int n)
{
#pragma omp parallel
    for (int i = 0; i < n; i++) {
#pragma omp barrier
    }
}

int main(int argc, char **argv)
{
    static double batches[BATCHES];
    int chunks = argc > 1 && !strcmp(argv[1], "chunk");
    for (int b = -20; b < BATCHES; b++) {
        double start = now_ns();
        if (argc > 1 && !strcmp(argv[1], "barrier"))
            barriers(CALLS);
        else if (chunks)
            loop(CALLS * 10);
        else
            for (int i = 0; i < CALLS; i++) region();
        if (b >= 0) batches[b] = (now_ns() - start) / (chunks ? CALLS * 10 : CALLS);
    }
    qsort(batches, BATCHES, sizeof *batches, ascending);
    printf("%.2f\n", batches[BATCHES / 2]);
    return 0;
}
