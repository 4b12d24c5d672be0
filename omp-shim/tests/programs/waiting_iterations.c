/* Iterations of a dynamic loop that wait for one another: each for the one before it has begun. Runs
 * as long as two threads take chunks in ascending order; prints "done". */
#include <omp.h>
#include <stdio.h>

static volatile int begun[60];

int main(void)
{
#pragma omp parallel for schedule(monotonic : dynamic) num_threads(2)
    for (int i = 0; i < 60; i++) {
        begun[i] = 1;
        /* The pair of threads meets in each pair of iterations. */
        while (!begun[i ^ 1]) {}
    }
    printf("done\n");
    return 0;
}
