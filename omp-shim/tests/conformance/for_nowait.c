/* Many loops without a barrier between them: threads may be in different ones at a time. */
#include "suite.h"
enum { LOOPS = 24, N = 96 };
int main(void)
{
    static int hits[LOOPS][N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
#pragma omp parallel
        for (int loop = 0; loop < LOOPS; loop += 3) {
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < N; i++)
                hits[loop][i]++;
#pragma omp for schedule(guided) nowait
            for (int i = 0; i < N; i++)
                hits[loop + 1][i]++;
#pragma omp for schedule(static, 3) nowait
            for (int i = 0; i < N; i++)
                hits[loop + 2][i]++;
        }
        for (int loop = 0; loop < LOOPS; loop++)
            for (int i = 0; i < N; i++)
                CHECK(hits[loop][i] == 1);
    }
    return suite_result();
}
