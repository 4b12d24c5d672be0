/* private, firstprivate and lastprivate on loops of every schedule. (libomp 14 gets lastprivate wrong
 * where threads steal chunks, hence monotonic.) */
#include "suite.h"
enum { N = 301 };
int main(void)
{
    while (more_rounds()) {
        int a = 5, b = 0, c = 40, wrong = 0;
#pragma omp parallel for schedule(static) private(b) firstprivate(a) lastprivate(c) reduction(+ : wrong)
        for (int i = 0; i < N; i++) {
            b = i;
            c = a + b;
            wrong += c != i + 5;
        }
        CHECK(wrong == 0 && a == 5 && b == 0 && c == N - 1 + 5);
#pragma omp parallel
        {
            /* Written by the thread that has the last iteration. */
#pragma omp for schedule(monotonic : dynamic, 4) lastprivate(c)
            for (int i = 0; i < N; i++)
                c = 2 * i;
            CHECK(c == 2 * (N - 1));
#pragma omp barrier
#pragma omp for schedule(guided) firstprivate(c) lastprivate(c)
            for (int i = 0; i < N; i++)
                c = 3 * i;
            CHECK(c == 3 * (N - 1));
        }
        int index = -1;
#pragma omp parallel for schedule(monotonic : dynamic, 5) lastprivate(index)
        for (index = 0; index < N; index++)
            ;
        CHECK(index == N);
    }
    return suite_result();
}
