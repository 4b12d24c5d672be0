/* Threads hand short work to each other for so many seconds, and wait for it by spinning. Prints how often, and how many
   OS threads may then run on other CPUs than the first. Arguments: seconds, threads. */
#define _GNU_SOURCE
#include <dirent.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile double sink;

static void work(void)
{
    for (int i = 0; i < 2000; i++)
        sink = i;
}

static int confined_otherwise(void)
{
    cpu_set_t first, other;
    int found = 0;
    DIR *tasks = opendir("/proc/self/task");
    sched_getaffinity(getpid(), sizeof first, &first);
    for (struct dirent *task; (task = readdir(tasks));)
        if (atoi(task->d_name) && !sched_getaffinity(atoi(task->d_name), sizeof other, &other))
            found += !CPU_EQUAL(&first, &other);
    closedir(tasks);
    return found;
}

int main(int argc, char **argv)
{
    int turn = 0, threads = argc > 2 ? atoi(argv[2]) : 2;
    long times = 0;
    double until_s = omp_get_wtime() + (argc > 1 ? atof(argv[1]) : 1);
    while (omp_get_wtime() < until_s) {
#pragma omp parallel num_threads(threads)
        for (int round = 0; round < 50; round++) {
            int me = omp_get_thread_num();
            while (__atomic_load_n(&turn, __ATOMIC_ACQUIRE) != me)
                ;
            work();
            __atomic_store_n(&turn, (me + 1) % threads, __ATOMIC_RELEASE);
        }
        times += 50 * threads;
    }
    /* Longer than between two looks of a watcher. */
    usleep(20000);
    printf("%ld %d\n", times, confined_otherwise());
    return 0;
}
