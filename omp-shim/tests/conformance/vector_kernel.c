/* A small stencil with barriers, compared with the same done by one thread. */
#include "suite.h"
#include <math.h>
enum { N = 200, STEPS = 30 };
int main(void)
{
    static double a[N], b[N], expected[N], other[N];
    for (int i = 0; i < N; i++)
        expected[i] = sin(i * 0.1);
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < N; i++)
            other[i] = (expected[(i + N - 1) % N] + expected[i] + expected[(i + 1) % N]) / 3;
        memcpy(expected, other, sizeof other);
    }
    while (more_rounds()) {
#pragma omp parallel
        {
#pragma omp for
            for (int i = 0; i < N; i++)
                a[i] = sin(i * 0.1);
            for (int step = 0; step < STEPS; step++) {
#pragma omp for schedule(static)
                for (int i = 0; i < N; i++)
                    b[i] = (a[(i + N - 1) % N] + a[i] + a[(i + 1) % N]) / 3;
#pragma omp for schedule(dynamic, 16)
                for (int i = 0; i < N; i++)
                    a[i] = b[i];
            }
        }
        for (int i = 0; i < N; i++)
            CHECK(a[i] == expected[i]);
    }
    return suite_result();
}
