/* Locks: set, unset, test. */
#include "suite.h"
#include <sched.h>
int main(void)
{
    omp_lock_t lock, tested_lock;
    omp_init_lock(&lock);
    omp_init_lock(&tested_lock);
    while (more_rounds()) {
        long counter = 0, tested = 0, team = 0;
        int inside = 0;
#pragma omp parallel
        {
#pragma omp single
            team = omp_get_num_threads();
            for (int i = 0; i < 100; i++) {
                omp_set_lock(&lock);
                CHECK(inside++ == 0);
                counter++;
                CHECK(--inside == 0);
                omp_unset_lock(&lock);
                while (!omp_test_lock(&tested_lock))
                    sched_yield();
                tested++;
                omp_unset_lock(&tested_lock);
            }
        }
        CHECK(counter == 100 * team && tested == 100 * team);
    }
    omp_destroy_lock(&lock);
    omp_destroy_lock(&tested_lock);
    return suite_result();
}
