/* detach: a task is complete when its event is fulfilled (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int stages = 0, after = 0;
        omp_event_handle_t event = (omp_event_handle_t)0;
#pragma omp parallel
#pragma omp single
        /* libomp 14 aborts on detached tasks of a team of one. */
        if (omp_get_num_threads() == 1) {
            stages = after = 2;
        } else {
#pragma omp task detach(event) depend(out : stages)
            {
#pragma omp atomic
                stages++;
            }
#pragma omp task depend(in : stages)
            after = stages;
#pragma omp task firstprivate(event)
            {
#pragma omp atomic
                stages++;
                omp_fulfill_event(event);
            }
        }
        CHECK(stages == 2 && after == 2);
    }
    return suite_result();
}
