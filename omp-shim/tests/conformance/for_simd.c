/* for simd and parallel for simd, with schedules and the simd modifier. */
#include "suite.h"
enum { N = 1000 };
int main(void)
{
    static double a[N], b[N];
    while (more_rounds()) {
        double sum = 0;
        memset(b, 0, sizeof b);
#pragma omp parallel
        {
#pragma omp for simd schedule(static)
            for (int i = 0; i < N; i++)
                a[i] = i * 0.5;
#pragma omp for simd schedule(simd : dynamic, 16)
            for (int i = 0; i < N; i++)
                b[i] += a[i] * 2;
        }
#pragma omp parallel for simd schedule(guided) reduction(+ : sum)
        for (int i = 0; i < N; i++)
            sum += b[i];
        CHECK(sum == N * (N - 1) / 2);
    }
    return suite_result();
}
