/* A signal that one thread of a team sends to another is handled by that one, with its variables, under its mask. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
#include <sched.h>
#include <signal.h>
static __thread volatile int handled;
static pthread_t members[256];
static void handler(int number)
{
    (void)number;
    handled++;
}
int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    while (a_few_rounds()) {
#pragma omp parallel
        {
            int me = omp_get_thread_num(), n = omp_get_num_threads();
            members[me] = pthread_self();
            handled = 0;
#pragma omp barrier
            CHECK(pthread_kill(members[(me + 1) % n], SIGUSR1) == 0);
            double since = omp_get_wtime();
            while (!handled && omp_get_wtime() - since < 20)
                sched_yield();
            CHECK(handled == 1);
#pragma omp barrier
        }
    }
    return suite_result();
}
