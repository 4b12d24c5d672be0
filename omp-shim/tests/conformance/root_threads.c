/* Several threads of the program's own, each with regions of its own at the same time. */
#include "suite.h"
#include <pthread.h>
static int stop;
static void *root(void *argument)
{
    long me = (long)argument;
    for (int round = 0; round < 10 || !__atomic_load_n(&stop, __ATOMIC_RELAXED); round++) {
        long sum = 0;
#pragma omp parallel for schedule(dynamic, 5) reduction(+ : sum)
        for (int i = 0; i < 100; i++)
            sum += i * me;
        CHECK(sum == 4950 * me);
        int barriers = 0;
#pragma omp parallel shared(barriers)
        {
#pragma omp atomic
            barriers++;
#pragma omp barrier
            CHECK(barriers == omp_get_num_threads());
        }
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[3];
    for (long i = 0; i < 3; i++)
        if (pthread_create(&threads[i], NULL, root, (void *)(i + 1)) != 0)
            return 2;
    while (more_rounds())
        usleep(1000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return suite_result();
}
