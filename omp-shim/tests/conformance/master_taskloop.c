/* master taskloop and parallel master taskloop, with simd (OpenMP 5.0). */
#include "suite.h"
enum { N = 150 };
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
        long sum = 0;
#pragma omp parallel
        {
#pragma omp master taskloop grainsize(8)
            for (int i = 0; i < N; i++)
                hits[i]++;
#pragma omp barrier
#pragma omp master taskloop simd num_tasks(6)
            for (int i = 0; i < N; i++)
                hits[i]++;
        }
#pragma omp parallel master taskloop simd reduction(+ : sum)
        for (int i = 0; i < N; i++) {
            sum += i;
            hits[i]++;
        }
        CHECK(sum == N * (N - 1) / 2);
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 3);
    }
    return suite_result();
}
