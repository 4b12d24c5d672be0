/* schedule(runtime) over int. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
        static int turn;
        omp_set_schedule(kinds[turn % 4], turn % 5);
        turn++;
        CHECK_LOOP(int, -400, 1, schedule(runtime));
        CHECK_LOOP(int, -999, 3, schedule(runtime));
        CHECK_LOOP(int, INT_MAX - 600 * 5, 5, schedule(runtime));
    }
    return suite_result();
}
