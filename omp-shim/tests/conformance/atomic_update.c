/* atomic update of every width and type. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        signed char c = 0;
        short s = 0;
        int i = 0;
        long long l = 0;
        unsigned u = 0, bits = 0;
        float f = 0;
        double d = 0;
        long long product = 1;
#pragma omp parallel for schedule(dynamic, 3)
        for (int k = 1; k <= 120; k++) {
#pragma omp atomic
            c++;
#pragma omp atomic
            s += 2;
#pragma omp atomic update
            i = i + k;
#pragma omp atomic
            l -= k;
#pragma omp atomic
            u ^= (unsigned)k;
#pragma omp atomic
            bits |= 1u << (k % 32);
#pragma omp atomic
            f += 1.0f;
#pragma omp atomic
            d += 0.5;
            if (k <= 20) {
#pragma omp atomic
                product *= 2;
            }
        }
        unsigned expected = 0;
        for (unsigned k = 1; k <= 120; k++)
            expected ^= k;
        CHECK(c == 120 && s == 240 && i == 7260 && l == -7260 && u == expected && bits == ~0u);
        CHECK(f == 120 && d == 60 && product == 1 << 20);
    }
    return suite_result();
}
