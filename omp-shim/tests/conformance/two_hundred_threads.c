/* A team much larger than the machine meets, locks and divides. */
#include "suite.h"
int main(void)
{
    static int phase[200];
    omp_lock_t lock;
    omp_init_lock(&lock);
    omp_set_dynamic(0);
    while (a_few_rounds()) {
        int count = 0, size = 0, locked = 0, dispensed = 0;
#pragma omp parallel num_threads(200) shared(count, size, locked, dispensed)
        {
            int me = omp_get_thread_num();
#pragma omp single
            size = omp_get_num_threads();
            for (int k = 1; k < 4; k++) {
                phase[me] = k;
#pragma omp barrier
                CHECK(phase[(me + 1) % size] == k);
#pragma omp barrier
            }
#pragma omp atomic
            count++;
            omp_set_lock(&lock);
            locked++;
            omp_unset_lock(&lock);
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 500; i++)
#pragma omp critical
                dispensed++;
        }
        CHECK(count == size && locked == size && dispensed == 500 && size == 200);
    }
    return suite_result();
}
