/* A timer interrupts threads wherever they are, as a profiler does. */
#define _GNU_SOURCE
#include "suite.h"
#include <execinfo.h>
#include <signal.h>
#include <sys/time.h>
static int ticks;
static void handler(int number)
{
    void *frames[32];
    (void)number;
    int saved = backtrace(frames, 32);
    if (saved > 0)
        __atomic_fetch_add(&ticks, 1, __ATOMIC_RELAXED);
}
int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    void *frames[4];
    backtrace(frames, 4);
    sigaction(SIGPROF, &action, NULL);
    struct itimerval timer = {{0, 500}, {0, 500}};
    setitimer(ITIMER_PROF, &timer, NULL);
    for (int round = 0; round < 5 || (more_rounds() || ticks < 10) && round < 100000; round++) {
        long sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp for schedule(dynamic, 7)
            for (int i = 0; i < 1000; i++)
                sum += i;
#pragma omp barrier
#pragma omp for schedule(static)
            for (int i = 0; i < 1000; i++)
                sum += i;
        }
        CHECK(sum == 999000);
    }
    CHECK(ticks > 0);
    return suite_result();
}
