/* schedule(static) with and without a chunk: each iteration once, and loops of one shape map alike. */
#include "suite.h"
enum { N = 1003 };
int main(void)
{
    static int owner[N], hits[N];
    while (more_rounds()) {
        memset(hits, 0, sizeof hits);
#pragma omp parallel
        {
            int me = omp_get_thread_num();
#pragma omp for schedule(static) nowait
            for (int i = 0; i < N; i++)
                owner[i] = me;
            /* The same loop goes to the same thread, which is what permits nowait. */
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++) {
                CHECK(owner[i] == me);
                hits[i]++;
            }
#pragma omp for schedule(static, 8)
            for (int i = 0; i < N; i++) {
                CHECK(me == i / 8 % omp_get_num_threads());
                hits[i]++;
            }
        }
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 2);
    }
    return suite_result();
}
