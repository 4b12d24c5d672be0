/* lastprivate(conditional:): the value of the last iteration that assigned one (OpenMP 5.0). */
#include "suite.h"
enum { N = 500 };
int main(void)
{
    while (more_rounds()) {
        int last = -1;
#pragma omp parallel for schedule(static) lastprivate(conditional : last)
        for (int i = 0; i < N; i++)
            if (i % 7 == 3)
                last = i;
        CHECK(last == 493);
    }
    return suite_result();
}
