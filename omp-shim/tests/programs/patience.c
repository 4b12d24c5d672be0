/* How long threads spin at barriers: usage patience
 *
 * For each line it reads: 40 times one thread sleeps for half a millisecond while the other waits for it at
 * a barrier. Prints the microseconds of CPU time that this took: some ten thousand if the thread that waits
 * spins all the time, next to nothing if it sleeps. */
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return t.tv_sec * 1000000ll + t.tv_nsec / 1000;
}

int main(void)
{
    char line[16];
    while (fgets(line, sizeof line, stdin)) {
        long long begin = cpu_us();
#pragma omp parallel num_threads(2)
        for (int i = 0; i < 40; i++) {
#pragma omp master
            usleep(500);
#pragma omp barrier
        }
        printf("%lld\n", cpu_us() - begin);
        fflush(stdout);
    }
    return 0;
}
