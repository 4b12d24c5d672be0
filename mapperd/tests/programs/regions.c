/* Runs one parallel region for each line of input and prints the size of its team and on how many of
 * the kernel's threads the members ran. A macro adds one thing by which the library that mapper
 * preloads decides. Ends by status 1 if what the members did together is wrong. */
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef CLAUSE
#define HOW num_threads(3)
#else
#define HOW
#endif

#define MOST 64
static long ids[MOST];

/* Something that this program has besides its regions. Never called: what it imports counts. */
void besides(void)
{
    long sum = 0;
    (void)sum;
#if defined DETACHED
    omp_event_handle_t event;
#pragma omp task detach(event) shared(sum)
    {
        sum++;
        omp_fulfill_event(event);
    }
#elif defined DOACROSS
#pragma omp for ordered(1) schedule(dynamic)
    for (int i = 0; i < 10; i++) {
#pragma omp ordered depend(sink : i - 1)
        sum++;
#pragma omp ordered depend(source)
    }
#elif defined TASK_REDUCTION
#pragma omp parallel reduction(task, + : sum)
    sum++;
#elif defined CANCELLATION
#pragma omp parallel
    {
#pragma omp cancel parallel
    }
#elif defined OFFLOADING
#pragma omp target map(tofrom : sum)
    sum++;
#elif defined UNSERVED
    omp_set_default_device(0);
#elif defined THREAD_BOUND
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
#elif defined KERNEL_STATE
    pthread_kill(pthread_self(), SIGUSR1);
#endif
}

static void settings(void)
{
#if defined SET_NUM_THREADS
    omp_set_num_threads(3);
#elif defined SET_DYNAMIC
    omp_set_dynamic(0);
#endif
}

/* The members wait for the last of them without OpenMP, again and again. */
static void wait_by_hand(void)
{
#ifdef SPINS
    static volatile long said, rounds;
    long before = rounds;
    for (long round = before + 1; round <= before + 100; round++) {
#pragma omp barrier
        if (omp_get_thread_num() == omp_get_num_threads() - 1)
            said = round;
        else
            while (said < round) __asm__ volatile("" ::: "memory");
    }
#pragma omp barrier
#pragma omp master
    rounds = before + 100;
#endif
}

int main(void)
{
    char line[8];
    settings();
    while (fgets(line, sizeof line, stdin)) {
        int size = 0, members = 0, threads = 0;
#pragma omp parallel reduction(+ : members) HOW
        {
            ids[omp_get_thread_num() % MOST] = syscall(SYS_gettid);
            members++;
            wait_by_hand();
#pragma omp master
            size = omp_get_num_threads();
        }
        if (members != size || size > MOST) return 1;
        for (int i = 0; i < size; i++) {
            int first = 0;
            while (ids[first] != ids[i]) first++;
            threads += first == i;
        }
        printf("%d %d\n", size, threads);
        fflush(stdout);
    }
    return 0;
}
