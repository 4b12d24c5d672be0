/* taskloop with grainsize, num_tasks and collapse. */
#include "suite.h"
enum { N = 120 };
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
        int last = -1;
#pragma omp parallel
#pragma omp single
        {
#pragma omp taskloop grainsize(7)
            for (int i = 0; i < N; i++)
                hits[i]++;
#pragma omp taskloop num_tasks(5) lastprivate(last)
            for (unsigned long long i = 0; i < N; i++) {
                hits[i]++;
                last = (int)i;
            }
            CHECK(last == N - 1);
#pragma omp taskloop collapse(2)
            for (int i = 0; i < N / 10; i++)
                for (int j = 0; j < 10; j++)
                    hits[i * 10 + j]++;
#pragma omp taskgroup
#pragma omp taskloop nogroup
            for (int i = N - 1; i >= 0; i--)
                hits[i]++;
        }
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 4);
    }
    return suite_result();
}
