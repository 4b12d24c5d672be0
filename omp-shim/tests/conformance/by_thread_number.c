/* Work divided by the team's own size and numbers, as older programs do, over arrays by thread. */
#include "suite.h"
enum { N = 1000 };
int main(void)
{
    while (more_rounds()) {
        long *parts = NULL;
        int size = 0, hits[N] = {0};
#pragma omp parallel shared(parts, size, hits)
        {
#pragma omp single
            {
                size = omp_get_num_threads();
                parts = calloc((size_t)size, sizeof *parts);
            }
            int me = omp_get_thread_num();
            int from = (int)((long)N * me / size), to = (int)((long)N * (me + 1) / size);
            for (int i = from; i < to; i++) {
                hits[i]++;
                parts[me] += i;
            }
#pragma omp barrier
#pragma omp single
            {
                long sum = 0;
                for (int i = 0; i < size; i++)
                    sum += parts[i];
                CHECK(sum == (long)N * (N - 1) / 2);
            }
        }
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 1);
        free(parts);
    }
    return suite_result();
}
