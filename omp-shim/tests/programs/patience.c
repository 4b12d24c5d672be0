/* How long threads spin at barriers: usage patience [compute]
 *
 * For each line it reads: 100 times one thread is busy while the other waits for it at a barrier: it sleeps for
 * a tenth of a millisecond or, if asked to, computes for three. Prints the microseconds of CPU time that the
 * waiting took: some ten thousand if the thread that waits spins all the time, far less if it sleeps. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    char line[16];
    (void)argv;
    while (fgets(line, sizeof line, stdin)) {
        long long begin = us(CLOCK_PROCESS_CPUTIME_ID), busy = 0;
#pragma omp parallel num_threads(2)
        for (int i = 0; i < 100; i++) {
#pragma omp master
            {
                long long from = us(CLOCK_THREAD_CPUTIME_ID);
                if (argc == 1)
                    usleep(100);
                else
                    while (us(CLOCK_THREAD_CPUTIME_ID) < from + 3000) {
                    }
                busy += us(CLOCK_THREAD_CPUTIME_ID) - from;
            }
#pragma omp barrier
        }
        printf("%lld\n", us(CLOCK_PROCESS_CPUTIME_ID) - begin - busy);
        fflush(stdout);
    }
    return 0;
}
