/* cancel parallel around loops and sections, whose ends are cancellation points then. */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "libomp 14 hangs if a thread cancels the region while others still leave a barrier"
#endif
enum { N = 200 };
int main(int argc, char **argv)
{
    (void)argc;
    suite_require_environment("OMP_CANCELLATION", "true", argv);
    while (more_rounds()) {
        for (int cancelled = 0; cancelled < 2; cancelled++) {
            int fixed = 0, dealt = 0, sections = 0, after = 0, past = 0, size = 0;
#pragma omp parallel
            {
#pragma omp master
                size = omp_get_num_threads();
#pragma omp for schedule(static)
                for (int i = 0; i < N; i++) {
#pragma omp atomic
                    fixed++;
                }
#pragma omp for schedule(dynamic, 3)
                for (int i = 0; i < N; i++) {
#pragma omp atomic
                    dealt++;
                }
#pragma omp sections
                {
#pragma omp atomic
                    sections++;
#pragma omp section
#pragma omp atomic
                    sections++;
                }
                if (cancelled && omp_get_thread_num() == 0) {
#pragma omp cancel parallel
                }
#pragma omp for schedule(static)
                for (int i = 0; i < N; i++) {
#pragma omp atomic
                    after++;
                }
#pragma omp atomic
                past++;
            }
            CHECK(fixed == N && dealt == N && sections == 2 && after <= N);
            CHECK(past == (cancelled ? 0 : size));
        }
    }
    return suite_result();
}
