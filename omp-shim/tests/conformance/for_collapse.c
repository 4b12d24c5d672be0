/* collapse(2) and collapse(3), with every schedule and mixed types. */
#include "suite.h"
enum { A = 7, B = 11, C = 5 };
#define FLAT(i, j, k) (((i) * B + (j)) * C + (k))
int main(void)
{
    static int hits[A * B * C];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
#pragma omp parallel
        {
#pragma omp for collapse(3) schedule(dynamic, 3)
            for (int i = 0; i < A; i++)
                for (unsigned j = 0; j < B; j++)
                    for (long k = C - 1; k >= 0; k--)
                        hits[FLAT(i, j, k)]++;
#pragma omp for collapse(2) schedule(static)
            for (int i = 0; i < A; i++)
                for (int j = 0; j < B; j++)
                    for (int k = 0; k < C; k++)
                        hits[FLAT(i, j, k)]++;
#pragma omp for collapse(3) schedule(guided)
            for (unsigned long long i = 0; i < A; i++)
                for (int j = 0; j < B; j++)
                    for (int k = 0; k < C; k++)
                        hits[FLAT((int)i, j, k)]++;
        }
        for (int i = 0; i < A * B * C; i++)
            CHECK(hits[i] == 3);
    }
    return suite_result();
}
