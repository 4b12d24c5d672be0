/* Reductions over arrays and array sections. */
#include "suite.h"
enum { BINS = 16, N = 960 };
int main(void)
{
    while (more_rounds()) {
        int bins[BINS] = {0};
        long *heap = calloc(BINS, sizeof *heap);
        heap[0] = 99;
#pragma omp parallel for schedule(dynamic, 11) reduction(+ : bins)
        for (int i = 0; i < N; i++)
            bins[i * 7 % BINS]++;
#pragma omp parallel for schedule(static) reduction(+ : heap[1 : BINS - 1])
        for (int i = 0; i < N; i++)
            heap[1 + i % (BINS - 1)] += i;
        long sum = 0;
        for (int i = 0; i < BINS; i++) {
            CHECK(bins[i] == N / BINS);
            sum += heap[i];
        }
        CHECK(sum == 99 + (long)N * (N - 1) / 2);
        free(heap);
    }
    return suite_result();
}
