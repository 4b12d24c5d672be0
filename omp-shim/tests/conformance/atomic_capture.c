/* atomic capture: each old value is seen once; also the structured form. */
#include "suite.h"
enum { N = 400 };
int main(void)
{
    static int seen[N], swapped[N + 1];
    while (more_rounds()) {
        memset(seen, 0, sizeof seen);
        memset(swapped, 0, sizeof swapped);
        int counter = 0, token = N;
#pragma omp parallel for schedule(guided)
        for (int k = 0; k < N; k++) {
            int mine, before;
#pragma omp atomic capture
            mine = counter++;
#pragma omp atomic
            seen[mine]++;
#pragma omp atomic capture
            {
                before = token;
                token = k;
            }
#pragma omp atomic
            swapped[before]++;
        }
        swapped[token]++;
        CHECK(counter == N);
        for (int k = 0; k < N; k++)
            CHECK(seen[k] == 1);
        for (int k = 0; k <= N; k++)
            CHECK(swapped[k] == 1);
    }
    return suite_result();
}
