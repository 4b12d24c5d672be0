/* In a long loop of usual schedule every thread has some iterations, on which what it keeps depends. */
#include "suite.h"

enum { COUNT = 1000 };

static int kept;
#pragma omp threadprivate(kept)

int main(void)
{
    while (more_rounds()) {
        int start = 12345, team = 0;
        long sum = 0;
        kept = 0;
#pragma omp parallel copyin(kept)
        {
#pragma omp single
            team = omp_get_num_threads();
#pragma omp for firstprivate(start)
            for (int i = 1; i <= COUNT; i++) {
                start += i;
                kept = start;
            }
#pragma omp atomic
            sum += kept;
        }
        CHECK(sum == 12345L * team + COUNT * (COUNT + 1L) / 2);
    }
    return suite_result();
}
