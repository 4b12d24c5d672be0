/* schedule(runtime) over unsigned long long, beyond the range of long. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
        static int turn;
        omp_set_schedule(kinds[turn % 4], turn % 5);
        turn++;
        CHECK_LOOP(unsigned long long, 1ULL, 1, schedule(runtime));
        CHECK_LOOP(unsigned long long, ULLONG_MAX - 600ULL * 3ULL, 3, schedule(runtime));
        CHECK_LOOP(unsigned long long, (ULLONG_MAX >> 1) - 200ULL, 1, schedule(runtime));
    }
    return suite_result();
}
