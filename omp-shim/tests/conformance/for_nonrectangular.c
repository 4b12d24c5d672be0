/* A collapsed loop whose inner bounds depend on the outer variable (OpenMP 5.0). */
#include "suite.h"
enum { N = 40 };
int main(void)
{
    static int hits[N][N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
#pragma omp parallel for collapse(2)
        for (int i = 0; i < N; i++)
            for (int j = i; j < N; j++)
                hits[i][j]++;
#pragma omp parallel for collapse(2)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < i + 1; j++)
                hits[i][j]++;
        for (int i = 0; i < N; i++)
            for (int j = 0; j < N; j++)
                CHECK(hits[i][j] == (i == j ? 2 : 1));
    }
    return suite_result();
}
