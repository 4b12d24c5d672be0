/* A barrier between loops holds: what one wrote, the next reads, from any thread. */
#include "suite.h"
enum { N = 256 };
int main(void)
{
    static int a[N], b[N];
    while (more_rounds()) {
        memset(a, 0, sizeof a);
#pragma omp parallel
        for (int turn = 0; turn < 6; turn++) {
#pragma omp for schedule(dynamic, 3)
            for (int i = 0; i < N; i++)
                b[i] = a[(i + 101) % N] + 1;
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                a[i] = b[(i + 59) % N] + 1;
        }
        for (int i = 0; i < N; i++)
            CHECK(a[i] == 12);
    }
    return suite_result();
}
