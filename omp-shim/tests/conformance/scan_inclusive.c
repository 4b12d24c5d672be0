/* Prefix sums by an inscan reduction, inclusive (OpenMP 5.0). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 compiles inscan reductions wrongly"
#endif
enum { N = 400 };
int main(void)
{
    static int a[N], b[N];
    for (int i = 0; i < N; i++)
        a[i] = i % 13;
    while (more_rounds()) {
        int sum = 0;
#pragma omp parallel for reduction(inscan, + : sum)
        for (int i = 0; i < N; i++) {
            sum += a[i];
#pragma omp scan inclusive(sum)
            b[i] = sum;
        }
        int expected = 0;
        for (int i = 0; i < N; i++) {
            expected += a[i];
            CHECK(b[i] == expected);
        }
        CHECK(sum == expected);
    }
    return suite_result();
}
