/* distribute, distribute parallel for, and their combined form on the host. */
#include "suite.h"
enum { N = 360 };
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
#pragma omp teams num_teams(2)
        {
            /* Both loops give each team the same elements: nothing orders the teams between them. */
#pragma omp distribute dist_schedule(static, N / 2)
            for (int i = 0; i < N; i++)
                hits[i]++;
#pragma omp distribute dist_schedule(static, N / 20)
            for (int block = 0; block < N; block += 10) {
#pragma omp parallel for
                for (int i = block; i < block + 10; i++)
                    hits[i]++;
            }
        }
#pragma omp teams distribute parallel for num_teams(2) schedule(dynamic, 5)
        for (int i = 0; i < N; i++)
            hits[i]++;
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 3);
    }
    return suite_result();
}
