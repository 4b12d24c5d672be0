/* Steps and comparisons of every kind, also `!=` (OpenMP 5.0). */
#include "suite.h"
int main(void)
{
    volatile int stride = 7;
    while (more_rounds()) {
        long sum = 0, expected = 0;
        int step = stride;
        for (int i = -100; i <= 100; i += step)
            expected += i + 1000;
#pragma omp parallel for schedule(dynamic, 2) reduction(+ : sum)
        for (int i = -100; i <= 100; i += step)
            sum += i + 1000;
        CHECK(sum == expected);
        sum = expected = 0;
        for (int i = 100; i > -100; i -= step)
            expected += i + 1000;
#pragma omp parallel for schedule(guided) reduction(+ : sum)
        for (int i = 100; i > -100; i = i - step)
            sum += i + 1000;
        CHECK(sum == expected);
        sum = 0;
#pragma omp parallel for schedule(static, 4) reduction(+ : sum)
        for (int i = 0; i != 128; i++)
            sum += i;
        CHECK(sum == 127 * 64);
        sum = 0;
        static const char text[] = "abcdefgh";
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
        for (const char *p = text; p < text + 8; p += 2)
            sum += *p;
        CHECK(sum == 'a' + 'c' + 'e' + 'g');
    }
    return suite_result();
}
