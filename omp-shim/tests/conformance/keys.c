/* Values of keys are each thread's own; threads that ended had theirs destroyed. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
static pthread_key_t key;
int main(void)
{
    pthread_key_create(&key, NULL);
    while (more_rounds()) {
        pthread_t selves[4];
#pragma omp parallel num_threads(4)
        {
            long me = omp_get_thread_num();
            pthread_setspecific(key, (void *)(me + 10));
            selves[me] = pthread_self();
#pragma omp barrier
            CHECK((long)pthread_getspecific(key) == me + 10);
            CHECK(pthread_equal(selves[me], pthread_self()));
            for (int i = 0; i < 4; i++)
                CHECK(i == me || !pthread_equal(selves[i], pthread_self()));
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 50; i++)
                CHECK((long)pthread_getspecific(key) == me + 10);
        }
    }
    return suite_result();
}
