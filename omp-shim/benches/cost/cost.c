/* Times batches of OpenMP constructs. Each line of input is one batch, "CONSTRUCT COUNT"; it is answered with the
 * nanoseconds that each took, and with how evenly the threads shared the chunks: what the one with the fewest
 * had, over an even share. Asked in turn with a copy of this program that runs in another way, both see the
 * same machine. With TASKS it has tasks, which the shim expects in each
 * region then. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}

static void regions(int n)
{
    for (int i = 0; i < n; i++) {
#pragma omp parallel
        {
            /* Not shared: a line that two threads write to would be all that is measured. */
            volatile int own;
            own = i;
            (void)own;
        }
    }
}

static double evenness = 1;

/* Chunks whose bodies take some nanoseconds for each of so many turns. */
static void loop(int n, int turns)
{
    int fewest = n, threads = 1;
#pragma omp parallel reduction(min : fewest)
    {
        volatile int own = 0;
#pragma omp for schedule(dynamic) nowait
        for (int i = 0; i < n; i++) {
            own++;
            for (volatile int turn = 0; turn < turns; turn++) {}
        }
        fewest = own;
#pragma omp single
        threads = omp_get_num_threads();
    }
    evenness = (double)fewest * threads / n;
}

static void chunks(int n)
{
    loop(n, 0);
}

static void working_chunks(int n)
{
    loop(n, 60);
}

static void barriers(int n)
{
#pragma omp parallel
    for (int i = 0; i < n; i++) {
#pragma omp barrier
    }
}

#ifdef TASKS
/* Made by one thread. */
static void tasks(int n)
{
#pragma omp parallel
#pragma omp single
    for (int i = 0; i < n; i++) {
#pragma omp task firstprivate(i)
        {
            volatile int own;
            own = i;
            (void)own;
        }
    }
}
#else
#define tasks ((void (*)(int))0)
#endif

int main(void)
{
    char line[100], construct[100];
    while (fgets(line, sizeof line, stdin)) {
        int count = 0;
        if (sscanf(line, "%99s %d", construct, &count) != 2 || count < 1) return 1;
        void (*batch)(int) = !strcmp(construct, "region")    ? regions
                             : !strcmp(construct, "chunk")   ? chunks
                             : !strcmp(construct, "working-chunk") ? working_chunks
                             : !strcmp(construct, "barrier") ? barriers
                             : !strcmp(construct, "task")    ? tasks
                                                             : 0;
        if (!batch) return 1;
        batch(count / 8 + 1);
        double start = now_ns();
        batch(count);
        double each_ns = (now_ns() - start) / count;
        printf("%.3f %.3f\n", each_ns, evenness);
        fflush(stdout);
    }
    return 0;
}
