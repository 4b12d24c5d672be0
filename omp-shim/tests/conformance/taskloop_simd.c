/* taskloop simd. */
#include "suite.h"
enum { N = 300 };
int main(void)
{
    static float a[N];
    while (more_rounds()) {
        memset(a, 0, sizeof a);
#pragma omp parallel
#pragma omp single
#pragma omp taskloop simd grainsize(32)
        for (int i = 0; i < N; i++)
            a[i] += (float)i * 0.5f;
        for (int i = 0; i < N; i++)
            CHECK(a[i] == (float)i * 0.5f);
    }
    return suite_result();
}
