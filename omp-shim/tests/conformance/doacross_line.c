/* ordered(1) with depend(sink) and depend(source): a chain through all iterations. */
#include "suite.h"
enum { N = 16 };
int main(void)
{
    static long a[N];
    while (a_few_rounds()) {
        memset(a, 0, sizeof a);
        a[0] = 1;
#pragma omp parallel for ordered(1) schedule(static, 1)
        for (int i = 1; i < N; i++) {
#pragma omp ordered depend(sink : i - 1)
            a[i] = a[i - 1] + i;
#pragma omp ordered depend(source)
        }
        CHECK(a[N - 1] == 1 + (long)(N - 1) * N / 2);
    }
    return suite_result();
}
