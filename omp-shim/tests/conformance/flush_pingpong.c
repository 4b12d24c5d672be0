/* Two threads hand a ball to and fro by spinning on it; the others wait at the barrier. */
#include "suite.h"
#include <sched.h>
int main(void)
{
    while (a_few_rounds()) {
        int ball = 0, team = 0;
#pragma omp parallel
        {
            int me = omp_get_thread_num();
#pragma omp single
            team = omp_get_num_threads();
            if (team >= 2 && me < 2)
                for (int turn = 0; turn < 10; turn++) {
                    int at;
                    do {
#pragma omp atomic read acquire
                        at = ball;
                        if (at % 2 != me)
                            sched_yield();
                    } while (at % 2 != me);
#pragma omp atomic update release
                    ball++;
                }
        }
        CHECK(team < 2 || ball == 20);
    }
    return suite_result();
}
