/* critical: unnamed, named, and with a hint; nothing is lost. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long plain = 0, named = 0, hinted = 0, team = 0;
#pragma omp parallel
        {
#pragma omp single
            team = omp_get_num_threads();
            for (int i = 0; i < 200; i++) {
#pragma omp critical
                plain++;
#pragma omp critical(of_its_own)
                {
                    named++;
#pragma omp critical(within)
                    named++;
                }
#pragma omp critical(hinted) hint(omp_sync_hint_contended)
                hinted++;
            }
        }
        CHECK(plain == 200 * team && named == 400 * team && hinted == 200 * team);
    }
    return suite_result();
}
