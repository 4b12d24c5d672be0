/* cancel for: iterations not begun stay undone; loops after it are whole. */
#include "suite.h"
enum { N = 2000 };
#ifdef __clang__
#define CHUNKS schedule(static, 3) /* libomp 14 goes on with the next dynamic loop where this one ended */
#else
#define CHUNKS schedule(dynamic)
#endif
int main(int argc, char **argv)
{
    (void)argc;
    suite_require_environment("OMP_CANCELLATION", "true", argv);
    while (more_rounds()) {
        int runs = 0, found = 0, after = 0;
#pragma omp parallel reduction(+ : after)
        {
#pragma omp for CHUNKS
            for (int i = 0; i < N; i++) {
#pragma omp atomic
                runs++;
                if (i == 20) {
#pragma omp atomic
                    found++;
#pragma omp cancel for
                }
#pragma omp cancellation point for
            }
#pragma omp for schedule(static)
            for (int i = 0; i < 50; i++)
                after++;
        }
        CHECK(found == 1 && runs >= 1 && runs <= N && after == 50);
    }
    return suite_result();
}
