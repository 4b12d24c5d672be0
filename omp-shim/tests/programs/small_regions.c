/* Regions of two kinds, as long as input lasts: each line names a kind, and is answered by the sizes
 * that the teams of the last ten of its regions had; with an argument, by the number of OS threads
 * that carried them.
 *
 *   small   200 regions of next to no work
 *   trial   10 of them
 *   large   12 regions whose threads have some 80 ms of work together
 *   both    small ones and large ones in turn, for the time of the large ones
 *   mixed   one function with small and large work in turn
 *   seconds N   small ones for so long */
#define _GNU_SOURCE
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

static volatile int sink;
static int sizes[10], count;

static void note(int size) { sizes[count++ % 10] = size; }

/* Under which OS threads the threads of the team ran. */
static int counts_os_threads;
static pid_t ran_on[512];

static void note_self(int *size)
{
    ran_on[omp_get_thread_num()] = counts_os_threads ? gettid() : 0;
    if (omp_get_thread_num() == 0) *size = omp_get_num_threads();
}

static int os_threads(int size)
{
    int different = 0;
    if (!counts_os_threads) return size;
    for (int i = 0; i < size; i++) {
        int known = 0;
        for (int j = 0; j < i; j++) known |= ran_on[i] == ran_on[j];
        different += !known;
    }
    return different;
}

static void work(double seconds)
{
    for (double end = now() + seconds; now() < end;) {}
}

static void small(void)
{
    int size = 0;
#pragma omp parallel
    {
#pragma omp for
        for (int i = 0; i < 64; i++) sink = i;
        note_self(&size);
    }
    note(os_threads(size));
}

static void large(void)
{
    int size = 0;
#pragma omp parallel
    {
        work(0.08 / omp_get_num_threads());
        note_self(&size);
    }
    note(os_threads(size));
}

static void mixed(double seconds)
{
    int size = 0;
#pragma omp parallel
    {
        work(seconds / omp_get_num_threads());
        note_self(&size);
    }
    note(os_threads(size));
}

int main(int argc, char **argv)
{
    (void)argv;
    counts_os_threads = argc > 1;
    char line[100], word[100];
    while (fgets(line, sizeof line, stdin)) {
        double seconds = 0;
        word[0] = 0;
        sscanf(line, "%99s %lf", word, &seconds);
        if (!strcmp(word, "small"))
            for (int i = 0; i < 200; i++) small();
        else if (!strcmp(word, "trial"))
            for (int i = 0; i < 10; i++) small();
        else if (!strcmp(word, "large"))
            for (int i = 0; i < 12; i++) large();
        else if (!strcmp(word, "both"))
            for (int i = 0; i < 120; i++) {
                for (int j = 0; j < 5; j++) small();
                if (i % 10 == 0) large();
            }
        else if (!strcmp(word, "mixed"))
            for (int i = 0; i < 120; i++) mixed(i % 10 ? 1e-6 : 0.08);
        else if (!strcmp(word, "seconds"))
            for (double end = now() + seconds; now() < end;) small();
        for (int i = 0; i < 10; i++)
            printf("%d%c", sizes[(count + i) % 10], i < 9 ? ' ' : '\n');
        fflush(stdout);
    }
    return 0;
}
