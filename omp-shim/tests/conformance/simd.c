/* simd with linear, safelen, simdlen, aligned, reduction and lastprivate. */
#include "suite.h"
enum { N = 333 };
int main(void)
{
    static float a[N] __attribute__((aligned(64))), b[N];
    while (more_rounds()) {
        int k = 0, last = 0;
        float sum = 0;
        for (int i = 0; i < N; i++)
            a[i] = (float)i;
#pragma omp simd linear(k : 2) reduction(+ : sum) lastprivate(last) aligned(a : 64)
        for (int i = 0; i < N; i++) {
            b[i] = a[i] + (float)k;
            k += 2;
            sum += a[i];
            last = i;
        }
        CHECK(k == 2 * N && last == N - 1 && sum == N * (N - 1) / 2);
        for (int i = 0; i < N; i++)
            CHECK(b[i] == (float)(3 * i));
#pragma omp simd safelen(4) simdlen(4)
        for (int i = 4; i < N; i++)
            a[i] = a[i - 4] + 1;
        CHECK(a[N - 1] == (float)((N - 1) % 4 + (N - 1) / 4));
    }
    return suite_result();
}
