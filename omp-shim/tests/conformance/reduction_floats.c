/* Reductions over float and double. */
#include "suite.h"
#include <math.h>
int main(void)
{
    while (more_rounds()) {
        float f = 0, low = 1e9f;
        double d = 0, product = 1, high = -1e300;
#pragma omp parallel
        {
#pragma omp for schedule(guided) reduction(+ : f, d) reduction(min : low) nowait
            for (int i = 0; i < 512; i++) {
                f += 0.25f;
                d += 1.0 / (1 << i % 8);
                low = fminf(low, (float)(i - 7));
            }
#pragma omp for schedule(dynamic, 5) reduction(* : product) reduction(max : high)
            for (int i = 0; i < 64; i++) {
                product *= i % 2 ? 2.0 : 0.5;
                high = fmax(high, i * 1.5);
            }
        }
        CHECK(f == 128 && low == -7);
        CHECK(fabs(d - 64 * (2 - 1.0 / 128)) < 1e-9);
        CHECK(product == 1 && high == 94.5);
    }
    return suite_result();
}
