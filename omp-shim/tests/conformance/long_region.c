/* One region that lasts, with loops, barriers and singles in turn. */
#include "suite.h"
int main(void)
{
    static long a[128];
    long expected = 0, total = 0;
    int go_on = 1;
#pragma omp parallel shared(a, expected, total, go_on)
    while (go_on) {
#pragma omp for schedule(dynamic, 3)
        for (int i = 0; i < 128; i++)
            a[i]++;
#pragma omp for schedule(guided) reduction(+ : total)
        for (int i = 0; i < 128; i++)
            total += a[i];
#pragma omp single
        {
            expected += 128 * a[0];
            CHECK(total == expected);
            go_on = more_rounds();
        }
    }
    return suite_result();
}
