/* monotonic: each thread meets its iterations in ascending order; nonmonotonic: each comes once. */
#include "suite.h"
enum { N = 800 };
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
        omp_set_schedule((omp_sched_t)(omp_sched_dynamic | omp_sched_monotonic), 3);
#pragma omp parallel
        {
            int before = -1;
#pragma omp for schedule(monotonic : dynamic, 2)
            for (int i = 0; i < N; i++) {
                CHECK(i > before);
                before = i;
                hits[i]++;
            }
            before = -1;
#pragma omp for schedule(monotonic : guided)
            for (int i = 0; i < N; i++) {
                CHECK(i > before);
                before = i;
                hits[i]++;
            }
            before = -1;
#pragma omp for schedule(monotonic : runtime)
            for (int i = 0; i < N; i++) {
                CHECK(i > before);
                before = i;
                hits[i]++;
            }
#pragma omp for schedule(nonmonotonic : dynamic, 2)
            for (int i = 0; i < N; i++)
                hits[i]++;
#pragma omp for schedule(nonmonotonic : guided)
            for (int i = 0; i < N; i++)
                hits[i]++;
        }
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 5);
    }
    return suite_result();
}
