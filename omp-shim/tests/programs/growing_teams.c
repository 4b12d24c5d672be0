/* A small team, then a large one. Prints the number of OS threads that ran the large one. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <omp.h>

enum { LARGE = 200 };

static long threads[LARGE];

static void run(int size)
{
#pragma omp parallel num_threads(size)
    threads[omp_get_thread_num()] = syscall(SYS_gettid);
}

int main(void)
{
    int distinct = 0;
    run(2);
    run(LARGE);
    for (int i = 0; i < LARGE; i++) {
        int j = 0;
        while (threads[j] != threads[i]) j++;
        distinct += j == i;
    }
    printf("%d\n", distinct);
    return 0;
}
