/* A chain over three iterations, with dynamic and guided schedules. */
#include "suite.h"
enum { N = 24 };
int main(void)
{
    static long a[N], b[N];
    while (a_few_rounds()) {
        memset(a, 0, sizeof a);
        memset(b, 0, sizeof b);
#pragma omp parallel
        {
#pragma omp for ordered(1) schedule(dynamic, 2)
            for (int i = 0; i < N; i++) {
#pragma omp ordered depend(sink : i - 3)
                a[i] = i < 3 ? 1 : a[i - 3] + 1;
#pragma omp ordered depend(source)
            }
#pragma omp for ordered(1) schedule(guided)
            for (long i = 0; i < N; i++) {
#pragma omp ordered depend(sink : i - 1)
                b[i] = i < 1 ? 1 : b[i - 1] + 1;
#pragma omp ordered depend(source)
            }
        }
        for (int i = 0; i < N; i++)
            CHECK(a[i] == i / 3 + 1 && b[i] == i + 1);
    }
    return suite_result();
}
