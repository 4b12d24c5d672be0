/* Threads that members of a team create are joined by others, and have regions of their own. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
static void *work(void *argument)
{
    long me = (long)argument, sum = 0;
#pragma omp parallel for reduction(+ : sum) num_threads(2)
    for (int i = 0; i < 100; i++)
        sum += i * me;
    return (void *)sum;
}
int main(void)
{
    pthread_t threads[4];
    while (a_few_rounds()) {
#pragma omp parallel num_threads(4)
        {
            long me = omp_get_thread_num();
            CHECK(pthread_create(&threads[me], NULL, work, (void *)me) == 0);
#pragma omp barrier
            if (me < 2) {
                void *result;
                CHECK(pthread_join(threads[(me + 1) % 2], &result) == 0);
                CHECK((long)result == 4950 * ((me + 1) % 2));
            }
        }
        for (long i = 2; i < 4; i++) {
            void *result;
            CHECK(pthread_join(threads[i], &result) == 0);
            CHECK((long)result == 4950 * i);
        }
    }
    return suite_result();
}
