/* A thread holds a lock while it waits at a barrier, and releases it after. */
#include "suite.h"
int main(void)
{
    omp_lock_t lock;
    omp_init_lock(&lock);
    while (more_rounds()) {
        int entered = 0, team = 0;
#pragma omp parallel
        {
            int me = omp_get_thread_num();
#pragma omp single
            team = omp_get_num_threads();
            if (me == 0)
                omp_set_lock(&lock);
#pragma omp barrier
            if (me != 0)
                CHECK(!omp_test_lock(&lock));
#pragma omp barrier
            if (me == 0)
                omp_unset_lock(&lock);
            omp_set_lock(&lock);
            entered++;
            omp_unset_lock(&lock);
        }
        CHECK(entered == team);
    }
    omp_destroy_lock(&lock);
    return suite_result();
}
