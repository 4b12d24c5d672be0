/* Regions of half a second and more, of tasks that compute for some 5 to 30 ms: ARG 1 says how they are made, ARG 2 how often. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static int executed;

static void compute(int number)
{
    struct timespec now;
    double until;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    until = now.tv_sec + now.tv_nsec * 1e-9 + 0.005 + number * 7 % 26 * 1e-3;
    do clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec + now.tv_nsec * 1e-9 < until);
    __atomic_add_fetch(&executed, 1, __ATOMIC_RELAXED);
}

static void make(int tasks)
{
    for (int i = 0; i < tasks; i++) {
#pragma omp task
        compute(i);
    }
}

int main(int argc, char **argv)
{
    const char *kind = argv[1];
    int rounds = atoi(argv[2]);
    for (int round = 0; round < rounds; round++) {
#pragma omp parallel
        {
            if (!strcmp(kind, "barrier")) {
#pragma omp single
                make(40);
            } else if (!strcmp(kind, "taskwait")) {
#pragma omp single
                {
                    make(40);
#pragma omp taskwait
                }
            } else if (!strcmp(kind, "every")) {
                make(40 / omp_get_num_threads());
#pragma omp taskwait
            } else if (!strcmp(kind, "loop")) {
#pragma omp single
#pragma omp taskloop grainsize(1)
                for (int i = 0; i < 40; i++) compute(i);
            }
        }
    }
    printf("%d\n", executed);
    return argc != 3;
}
