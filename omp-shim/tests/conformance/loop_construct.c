/* The loop construct and order(concurrent) (OpenMP 5.0). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 does not share out the loop construct"
#endif
enum { N = 700 };
int main(void)
{
    static int a[N];
    while (more_rounds()) {
        memset(a, 0, sizeof a);
#pragma omp parallel
        {
#pragma omp loop bind(parallel)
            for (int i = 0; i < N; i++)
                a[i] += i;
#pragma omp for order(concurrent)
            for (int i = 0; i < N; i++)
                a[i] += 1;
        }
        for (int i = 0; i < N; i++)
            CHECK(a[i] == i + 1);
    }
    return suite_result();
}
