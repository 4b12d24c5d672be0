/* Members wait for one another by what POSIX offers. */
#define _GNU_SOURCE
#include "suite.h"
#include <pthread.h>
#include <semaphore.h>
int main(void)
{
    pthread_barrier_t barrier;
    sem_t semaphores[4];
    pthread_barrier_init(&barrier, NULL, 4);
    for (int i = 0; i < 4; i++)
        sem_init(&semaphores[i], 0, 0);
    omp_set_dynamic(0);
    while (a_few_rounds()) {
        int phase[4] = {0};
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            for (int k = 1; k < 4; k++) {
                phase[me] = k;
                pthread_barrier_wait(&barrier);
                CHECK(phase[(me + 1) % 4] == k);
                pthread_barrier_wait(&barrier);
            }
            sem_post(&semaphores[(me + 1) % 4]);
            sem_wait(&semaphores[me]);
        }
    }
    return suite_result();
}
