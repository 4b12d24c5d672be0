/* Dependences in, out and inout order tasks. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int x = 0, y = 0, z = 0;
#pragma omp parallel
#pragma omp single
        {
            for (int turn = 0; turn < 10; turn++) {
#pragma omp task depend(out : x) firstprivate(turn)
                x = turn;
#pragma omp task depend(in : x) depend(out : y)
                y = x + 1;
#pragma omp task depend(in : x) depend(out : z)
                z = x + 2;
#pragma omp task depend(in : y, z) depend(inout : x) firstprivate(turn)
                {
                    CHECK(x == turn && y == turn + 1 && z == turn + 2);
                    x = -1;
                }
            }
        }
        CHECK(x == -1 && y == 10 && z == 11);
    }
    return suite_result();
}
