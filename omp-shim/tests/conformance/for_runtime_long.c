/* schedule(runtime) over long. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
        static int turn;
        omp_set_schedule(kinds[turn % 4], turn % 5);
        turn++;
        CHECK_LOOP(long, -9000000000L, 70000000, schedule(runtime));
        CHECK_LOOP(long, LONG_MIN + 1000, 9, schedule(runtime));
        CHECK_LOOP(long, LONG_MAX - 600 * 11L, 11, schedule(runtime));
    }
    return suite_result();
}
