/* A program whose only region has a loop of 20000 chunks of one iteration: usage only_region [combined]. Prints how
 * often another thread had an iteration than the one before. */
#include <omp.h>
#include <sched.h>
#include <stdio.h>

#define COUNT 20000
static int who[COUNT];

static void iteration(int i)
{
    who[i] = omp_get_thread_num();
    /* On one CPU, too, threads take chunks in turn. */
    sched_yield();
}

int main(int argc, char **argv)
{
    (void)argv;
    if (argc > 1) {
#pragma omp parallel for schedule(dynamic, 1)
        for (int i = 0; i < COUNT; i++) iteration(i);
    } else {
#pragma omp parallel
#pragma omp for schedule(dynamic, 1)
        for (int i = 0; i < COUNT; i++) iteration(i);
    }
    int changes = 0;
    for (int i = 1; i < COUNT; i++) changes += who[i] != who[i - 1];
    printf("%d\n", changes);
    return 0;
}
