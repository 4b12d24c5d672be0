/* Dynamic loops one after the other, within one region. A line of input, "MILLISECONDS", is answered with how
 * many loops were done in that time, by two threads or however many there are. The iterations of a loop take
 * some microseconds each and are not equally long. usage: loops ITERATIONS UNITS */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec * 1e-6;
}

static double work(int i, int units)
{
    double x = i;
    for (int k = 0; k < units * (1 + i % 4); k++) x = x * 0.999 + 1.0 / (x + 2.0);
    return x;
}

int main(int argc, char **argv)
{
    int iterations = argc > 1 ? atoi(argv[1]) : 64, units = argc > 2 ? atoi(argv[2]) : 100;
    double *results = calloc(iterations, sizeof *results), ms;
    if (!results) return 1;
    while (scanf("%lf", &ms) == 1) {
        double start = now_ms(), end = start + ms, took = 0;
        long loops = 0, done = 0;
        int stop = 0;
#pragma omp parallel reduction(+ : done)
        while (!stop) {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < iterations; i++) {
                results[i] += work(i, units);
                done++;
            }
#pragma omp single
            {
                loops++;
                took = now_ms() - start;
                stop = start + took >= end;
            }
        }
        if (done != loops * iterations) {
            fprintf(stderr, "%ld of %ld iterations\n", done, loops * iterations);
            return 1;
        }
        /* Loops in the time that was asked for. */
        printf("%.2f\n", loops * ms / took);
        fflush(stdout);
    }
    return 0;
}
