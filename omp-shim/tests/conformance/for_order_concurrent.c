/* order(concurrent) with a schedule, on for and on simd. */
#include "suite.h"
enum { N = 640 };
int main(void)
{
    static int a[N];
    while (more_rounds()) {
        memset(a, 0, sizeof a);
#pragma omp parallel for order(concurrent) schedule(dynamic, 16)
        for (int i = 0; i < N; i++)
            a[i] += 2 * i;
#pragma omp simd order(concurrent)
        for (int i = 0; i < N; i++)
            a[i]++;
        for (int i = 0; i < N; i++)
            CHECK(a[i] == 2 * i + 1);
    }
    return suite_result();
}
