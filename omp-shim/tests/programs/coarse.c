/* Regions whose threads compute for 60 to 300 ms between barriers, then many small ones; the first
 * argument says how many of the large ones, the second of the small. Prints "right", then under how many
 * OS threads the last small region ran. */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double cpu_time(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

/* As much work, whoever else uses the CPU meanwhile. */
static void compute(double seconds)
{
    for (double end = cpu_time() + seconds; cpu_time() < end;) {}
}

static int passed[64];
static pid_t ran_on[64];

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    int large = atoi(argv[1]), small = atoi(argv[2]), wrong = 0, different = 0, size = 0;
#pragma omp parallel
    for (int round = 0; round < large; round++) {
        compute(0.06 + 0.12 * (round % 3));
        passed[omp_get_thread_num()]++;
#pragma omp barrier
    }
    for (int round = 0; round < small; round++) {
#pragma omp parallel
        {
            passed[omp_get_thread_num()]++;
#pragma omp barrier
            ran_on[omp_get_thread_num()] = gettid();
            if (omp_get_thread_num() == 0) size = omp_get_num_threads();
        }
    }
    for (int i = 0; i < size; i++) {
        int known = 0;
        for (int j = 0; j < i; j++) known |= ran_on[i] == ran_on[j];
        different += !known;
        wrong |= passed[i] != large + small;
    }
    printf("%s\n%d\n", wrong ? "wrong" : "right", different);
    return wrong;
}
