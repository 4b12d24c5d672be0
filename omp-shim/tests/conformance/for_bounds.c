/* The bounds of a loop are taken once, at its start, and are the same for all threads. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int bound = 64, runs = 0;
#pragma omp parallel shared(bound) reduction(+ : runs)
        {
            for (int turn = 0; turn < 4; turn++) {
#pragma omp for schedule(dynamic, 2)
                for (int i = turn; i < bound; i++)
                    runs++;
#pragma omp single
                bound -= 8;
            }
        }
        CHECK(runs == 64 + (56 - 1) + (48 - 2) + (40 - 3));
        CHECK(bound == 32);
    }
    return suite_result();
}
