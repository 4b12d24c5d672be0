/* ordered(2): a wave over a plane. */
#include "suite.h"
enum { N = 8 };
int main(void)
{
    static long a[N][N];
    while (a_few_rounds()) {
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                a[i][j] = i == 0 || j == 0;
#pragma omp parallel for ordered(2) schedule(static, 1)
        for (int i = 1; i < N; i++)
            for (int j = 1; j < N; j++) {
#pragma omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)
                a[i][j] = a[i - 1][j] + a[i][j - 1];
#pragma omp ordered depend(source)
            }
        CHECK(a[5][5] == 252);
        CHECK(a[N - 1][N - 1] == 3432);
    }
    return suite_result();
}
