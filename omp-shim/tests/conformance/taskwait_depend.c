/* taskwait with a dependence waits for the tasks it names (OpenMP 5.0). */
#if defined(__clang__) && __clang_major__ < 19
#error "libomp before 19 lets go of a waiting node that another thread still looks at (llvm-project issue 85963)"
#endif
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int x = 0, y = 0;
#pragma omp parallel
#pragma omp single
        for (int turn = 1; turn <= 10; turn++) {
#pragma omp task depend(out : x) firstprivate(turn)
            x = turn;
#pragma omp task depend(out : y) firstprivate(turn)
            y = turn;
#pragma omp taskwait depend(in : x)
            CHECK(x == turn);
#pragma omp taskwait
            CHECK(y == turn);
        }
    }
    return suite_result();
}
