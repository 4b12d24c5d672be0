/* Functions with declare simd, called from simd and parallel loops. */
#include "suite.h"
enum { N = 400 };
#pragma omp declare simd uniform(scale) notinbranch
__attribute__((noinline)) static float grow(float x, float scale)
{
    return x * scale + 1;
}
int main(void)
{
    static float a[N];
    while (more_rounds()) {
#pragma omp parallel for simd
        for (int i = 0; i < N; i++)
            a[i] = grow((float)i, 2);
        for (int i = 0; i < N; i++)
            CHECK(a[i] == (float)(2 * i + 1));
    }
    return suite_result();
}
