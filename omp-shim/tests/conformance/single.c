/* single: one thread of the team, the others wait at its end. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int value = 0, runs = 0;
#pragma omp parallel
        for (int turn = 1; turn <= 20; turn++) {
#pragma omp single
            {
                value = turn;
                runs++;
            }
            CHECK(value == turn);
#pragma omp barrier
        }
        CHECK(runs == 20);
    }
    return suite_result();
}
