/* taskyield while waiting for a lock that other tasks hold. */
#include "suite.h"
int main(void)
{
    omp_lock_t lock;
    omp_init_lock(&lock);
    while (more_rounds()) {
        int count = 0;
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 30; i++) {
#pragma omp task shared(count)
            {
                while (!omp_test_lock(&lock)) {
#pragma omp taskyield
                }
                count++;
                omp_unset_lock(&lock);
            }
        }
        CHECK(count == 30);
    }
    omp_destroy_lock(&lock);
    return suite_result();
}
