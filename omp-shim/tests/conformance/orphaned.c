/* Worksharing constructs in functions that are called from regions, and from outside. */
#include "suite.h"
static void fill(int *a, int n)
{
#pragma omp for schedule(dynamic, 4)
    for (int i = 0; i < n; i++)
        a[i] += i;
#pragma omp single nowait
    a[0] += 1000;
#pragma omp barrier
}
int main(void)
{
    static int a[200];
    while (more_rounds()) {
        memset(a, 0, sizeof a);
        fill(a, 200);
#pragma omp parallel
        {
            fill(a, 200);
            fill(a, 200);
        }
        CHECK(a[0] == 3000);
        for (int i = 1; i < 200; i++)
            CHECK(a[i] == 3 * i);
    }
    return suite_result();
}
