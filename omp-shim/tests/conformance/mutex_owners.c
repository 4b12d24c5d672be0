/* Mutexes that know their owner take each thread of a team for another one. */
#define _GNU_SOURCE
#include "suite.h"
#include <errno.h>
#include <pthread.h>
int main(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t recursive, checked;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &attributes);
    while (more_rounds()) {
        int held = 0, failures = 0;
#pragma omp parallel num_threads(4) shared(held, failures)
        {
            int me = omp_get_thread_num();
            if (me == 1) {
                pthread_mutex_lock(&recursive);
                pthread_mutex_lock(&recursive);
                pthread_mutex_lock(&checked);
                CHECK(pthread_mutex_lock(&checked) == EDEADLK);
                held = 1;
            }
#pragma omp barrier
            if (me != 1) {
                CHECK(pthread_mutex_trylock(&recursive) == EBUSY);
                CHECK(pthread_mutex_trylock(&checked) == EBUSY);
                CHECK(pthread_mutex_unlock(&checked) == EPERM);
                CHECK(pthread_mutex_unlock(&recursive) == EPERM);
            }
#pragma omp barrier
            if (me == 1) {
                CHECK(pthread_mutex_unlock(&recursive) == 0);
                CHECK(pthread_mutex_unlock(&recursive) == 0);
                CHECK(pthread_mutex_unlock(&checked) == 0);
            }
#pragma omp barrier
            for (int i = 0; i < 20; i++) {
                pthread_mutex_lock(&recursive);
                int before = ++failures;
#pragma omp critical
                CHECK(failures == before);
                failures--;
                pthread_mutex_unlock(&recursive);
            }
        }
        CHECK(held && failures == 0);
    }
    return suite_result();
}
