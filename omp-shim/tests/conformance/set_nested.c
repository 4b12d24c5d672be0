/* omp_set_nested, outside and for each thread by itself: what is set is read back, and followed. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int inner = 0;
        omp_set_nested(0);
        CHECK(!omp_get_nested());
        omp_set_nested(1);
        CHECK(omp_get_nested());
#pragma omp parallel
        {
            CHECK(omp_get_nested());
            omp_set_nested(omp_get_thread_num() % 2);
#pragma omp barrier
            CHECK(omp_get_nested() == omp_get_thread_num() % 2);
            if (omp_get_num_threads() > 1 && omp_get_thread_num() == 0) {
#pragma omp parallel num_threads(2)
#pragma omp atomic
                inner++;
                CHECK(inner == 1);
            }
        }
        CHECK(omp_get_nested());
    }
    return suite_result();
}
