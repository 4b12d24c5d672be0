/* omp_set_num_threads is exact when dynamic adjustment is off. */
#include "suite.h"
int main(void)
{
    omp_set_dynamic(0);
    while (more_rounds())
        for (int wanted = 4; wanted >= 1; wanted--) {
            int count = 0;
            omp_set_num_threads(wanted);
            CHECK(omp_get_max_threads() == wanted);
#pragma omp parallel
            {
                CHECK(omp_get_num_threads() == wanted);
#pragma omp atomic
                count++;
            }
            CHECK(count == wanted);
        }
    return suite_result();
}
