/* An OpenMP program that has all its threads and hardly any load: a parallel region ten times a
 * second, in which every thread does a little work and then sleeps. Says `ready PID TEAM` after
 * the first region and runs until it is ended, or for the number of regions given. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    long regions = argc > 1 ? atol(argv[1]) : -1;
    double sum = 0.0;
    for (long region = 0; region != regions; region++) {
        int team = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp single
            team = omp_get_num_threads();
#pragma omp for schedule(static)
            for (long i = 1; i < 20000; i++)
                sum += 1.0 / (double)i;
            usleep(100 * 1000);
        }
        if (region == 0) {
            printf("ready %d %d\n", (int)getpid(), team);
            fflush(stdout);
        }
    }
    return sum > 0.0 ? 0 : 1;
}
