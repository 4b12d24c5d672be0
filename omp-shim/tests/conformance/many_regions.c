/* Thousands of small regions, empty and with a little to do. */
#include "suite.h"
int main(void)
{
    long regions = 0, starts = 0;
    while (more_rounds())
        for (int i = 0; i < 50; i++) {
            int members = 0;
            regions += 2;
#pragma omp parallel
            {
            }
#pragma omp parallel reduction(+ : members)
            members++;
            CHECK(members >= 1 && members <= omp_get_max_threads());
#pragma omp parallel for schedule(static) reduction(+ : starts)
            for (int k = 0; k < 2; k++)
                starts++;
        }
    CHECK(starts == regions);
    return suite_result();
}
