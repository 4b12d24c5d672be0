/* The signal mask is each thread's own; a signal that a thread raises is handled before it goes on. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
#include <signal.h>
static int handled;
static void handler(int number)
{
    (void)number;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
}
int main(void)
{
    struct sigaction action = {.sa_handler = handler};
    sigaction(SIGUSR1, &action, NULL);
    while (more_rounds()) {
        handled = 0;
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            sigset_t set, old;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            if (me == 1)
                pthread_sigmask(SIG_BLOCK, &set, &old);
#pragma omp barrier
            pthread_sigmask(SIG_BLOCK, NULL, &old);
            CHECK(sigismember(&old, SIGUSR1) == (me == 1));
#pragma omp barrier
            if (me != 1)
                raise(SIGUSR1);
#pragma omp barrier
            CHECK(handled == 3);
#pragma omp barrier
            if (me == 1) {
                raise(SIGUSR1);
                CHECK(handled == 3);
                pthread_sigmask(SIG_UNBLOCK, &set, NULL);
                CHECK(handled == 4);
            }
        }
        CHECK(handled == 4);
    }
    return suite_result();
}
