/* Threads that begin regions one after the other, each with settings of its own: usage owners N. Another
 * thread sets its team size to N, runs a region and ends; then the first thread runs one. Prints the size of
 * the first thread's team and what it was told that this would be. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int size(void)
{
    int n = 0;
#pragma omp parallel
    {
#pragma omp single
        n = omp_get_num_threads();
    }
    return n;
}

static void *other(void *n)
{
    omp_set_num_threads(*(int *)n);
    size();
    return NULL;
}

int main(int argc, char **argv)
{
    int n = argc > 1 ? atoi(argv[1]) : 2;
    pthread_t thread;
    pthread_create(&thread, NULL, other, &n);
    pthread_join(thread, NULL);
    int told = omp_get_max_threads();
    printf("%d %d\n", size(), told);
    return 0;
}
