/* taskwait with a dependence, by a thread whose tasks nobody else carries out: libomp before 19 lets go of the node
 * that waits while another thread still looks at it (llvm-project issue 85963), and may then stop at a task that is
 * none. Prints whether each wait was long enough. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

int main(void)
{
    int wrong = 0;
    double begun = omp_get_wtime();
    while (omp_get_wtime() - begun < 0.1) {
        int x = 0, y = 0, is_done = 0;
#pragma omp parallel shared(is_done)
        if (omp_get_thread_num() == 0) {
            for (int turn = 1; turn <= 10; turn++) {
#pragma omp task depend(out : x) firstprivate(turn) shared(x)
                x = turn;
#pragma omp task depend(out : y) firstprivate(turn) shared(y)
                y = turn;
#pragma omp taskwait depend(in : x)
                wrong += x != turn;
#pragma omp taskwait
                wrong += y != turn;
            }
            __atomic_store_n(&is_done, 1, __ATOMIC_RELEASE);
        } else {
            while (!__atomic_load_n(&is_done, __ATOMIC_ACQUIRE)) usleep(20);
        }
    }
    printf("%s\n", wrong ? "wrong" : "right");
    return wrong != 0;
}
