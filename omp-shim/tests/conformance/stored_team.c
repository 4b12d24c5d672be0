/* Dynamic adjustment is off: every region has the size that omp_get_max_threads told, and work may
 * be divided by it. */
#include "suite.h"
enum { MOST = 256 };
int main(void)
{
    omp_set_dynamic(0);
    int team = omp_get_max_threads();
    if (team > MOST)
        team = MOST;
    omp_set_num_threads(team);
    static long parts[MOST];
    while (more_rounds()) {
        memset(parts, 0, sizeof parts);
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            for (int i = me; i < 1000; i += team)
                parts[me] += i;
        }
        long sum = 0;
        for (int i = 0; i < team; i++)
            sum += parts[i];
        CHECK(sum == 499500);
    }
    return suite_result();
}
