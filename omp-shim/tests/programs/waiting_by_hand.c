/* Threads that wait for one another without OpenMP, in the way that the first argument names, the
 * second says how often. Prints "right", how many ms the last round took, and when the first began and
 * the last ended, in ns of the monotonic clock. */
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile int flags[64];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int turn;
static int bad;

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

static int is_last(void) { return omp_get_thread_num() == omp_get_num_threads() - 1; }

/* Each thread waits for the one after it, as pipelined solvers do. */
static void flag(int round, void (*wait)(void))
{
    int me = omp_get_thread_num();
    if (!is_last())
        while (flags[me + 1] != round) wait();
    flags[me] = round;
#pragma omp barrier
    if (flags[0] != round) bad = 1;
}

static void spin(void) { __asm__ volatile("pause" ::: "memory"); }
static void yield(void) { sched_yield(); }
static void doze(void) { usleep(100); }

/* The first thread holds a lock across a barrier; the others want it after. */
static void lock(int round)
{
    static int owner;
    (void)round;
    if (omp_get_thread_num() == 0) {
        pthread_mutex_lock(&mutex);
        owner = 1;
    }
#pragma omp barrier
    if (omp_get_thread_num() == 0) {
        owner = 0;
        pthread_mutex_unlock(&mutex);
    } else {
        pthread_mutex_lock(&mutex);
        if (owner) bad = 1;
        pthread_mutex_unlock(&mutex);
    }
#pragma omp barrier
}

static void section(int round)
{
#pragma omp sections
    {
#pragma omp section
        while (flags[0] != round) spin();
#pragma omp section
        flags[0] = round;
    }
}

static void condition(int round)
{
    int n = omp_get_num_threads(), me = omp_get_thread_num();
    pthread_mutex_lock(&mutex);
    while (turn != round * n - 1 - me) pthread_cond_wait(&changed, &mutex);
    turn++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
#pragma omp barrier
}

static void once(const char *how, int round)
{
    if (!strcmp(how, "flag")) flag(round, spin);
    if (!strcmp(how, "yield")) flag(round, yield);
    if (!strcmp(how, "doze")) flag(round, doze);
    if (!strcmp(how, "lock")) lock(round);
    if (!strcmp(how, "section")) section(round);
    if (!strcmp(how, "condition")) condition(round);
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    const char *how = argv[1];
    int rounds = atoi(argv[2]), within = argc > 3;
    double last_ms = 0, began_ms = now_ms();
    if (within) {
#pragma omp parallel
        for (int round = 1; round <= rounds; round++) once(how, round);
    } else {
        for (int round = 1; round <= rounds; round++) {
            double start = now_ms();
#pragma omp parallel
            once(how, round);
            last_ms = now_ms() - start;
        }
    }
    printf("%s\n%.3f\n%.0f\n%.0f\n", bad ? "wrong" : "right", last_ms, began_ms * 1e6, now_ms() * 1e6);
    return bad;
}
