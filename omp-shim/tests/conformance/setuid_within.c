/* The user and the group of the process are set, to what they are, by one thread of a team after the other, and beside
 * them by a thread of its own: the C library signals every thread until each has heard. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
static int over;
static void *beside(void *unused)
{
    while (!__atomic_load_n(&over, __ATOMIC_ACQUIRE)) {
        CHECK(setgid(getgid()) == 0);
        CHECK(setresuid(-1, geteuid(), -1) == 0);
        usleep(300);
    }
    return unused;
}
int main(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, beside, NULL) == 0);
    while (a_few_rounds()) {
#pragma omp parallel
        for (int turn = 0; turn < omp_get_num_threads(); turn++) {
            if (turn == omp_get_thread_num())
                CHECK(setuid(getuid()) == 0);
#pragma omp barrier
        }
    }
    __atomic_store_n(&over, 1, __ATOMIC_RELEASE);
    CHECK(pthread_join(thread, NULL) == 0);
    return suite_result();
}
