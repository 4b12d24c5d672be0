/* masked taskloop, with a filter, and parallel masked taskloop (OpenMP 5.1). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 takes masked taskloop for masked"
#endif
enum { N = 150 };
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
        long sum = 0;
#pragma omp parallel
        {
#pragma omp masked taskloop filter(omp_get_num_threads() - 1) grainsize(8)
            for (int i = 0; i < N; i++)
                hits[i]++;
        }
#pragma omp parallel masked taskloop simd reduction(+ : sum)
        for (int i = 0; i < N; i++) {
            sum += i;
            hits[i]++;
        }
        CHECK(sum == N * (N - 1) / 2);
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 2);
    }
    return suite_result();
}
