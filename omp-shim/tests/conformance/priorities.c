/* Each thread of a team has the priority, the timer slack and the scheduling policy that it has set, over barriers. */
#define _GNU_SOURCE
#include "suite.h"
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
int main(void)
{
    int least = getpriority(PRIO_PROCESS, 0) < 19 ? getpriority(PRIO_PROCESS, 0) : 18;
    while (a_few_rounds()) {
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            struct sched_param none = {0};
            /* Lowered for good, as not everybody may raise it again. */
            int nice = least + me % 2;
            CHECK(setpriority(PRIO_PROCESS, 0, nice) == 0);
            CHECK(prctl(PR_SET_TIMERSLACK, 1000L * (me + 1)) == 0);
            CHECK(sched_setscheduler(0, me % 2 ? SCHED_BATCH : SCHED_OTHER, &none) == 0);
#pragma omp barrier
            CHECK(getpriority(PRIO_PROCESS, 0) == nice);
            CHECK(prctl(PR_GET_TIMERSLACK) == 1000 * (me + 1));
            CHECK(sched_getscheduler(0) == (me % 2 ? SCHED_BATCH : SCHED_OTHER));
        }
    }
    return suite_result();
}
