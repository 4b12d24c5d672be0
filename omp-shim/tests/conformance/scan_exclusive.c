/* Prefix maxima by an inscan reduction, exclusive (OpenMP 5.0). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 compiles inscan reductions wrongly"
#endif
enum { N = 400 };
int main(void)
{
    static int a[N], b[N];
    for (int i = 0; i < N; i++)
        a[i] = i * 37 % 211;
    while (more_rounds()) {
        int most = 0;
#pragma omp parallel for reduction(inscan, max : most)
        for (int i = 0; i < N; i++) {
            b[i] = most;
#pragma omp scan exclusive(most)
            most = a[i] > most ? a[i] : most;
        }
        int expected = 0;
        for (int i = 0; i < N; i++) {
            CHECK(b[i] == expected);
            expected = a[i] > expected ? a[i] : expected;
        }
    }
    return suite_result();
}
