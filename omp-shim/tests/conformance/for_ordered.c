/* ordered: blocks run in the order of the iterations, whatever the schedule. */
#include "suite.h"
enum { N = 60 };
#define CHECK_ORDERED(clause)                                                                      \
    do {                                                                                           \
        int next = 0;                                                                              \
        _Pragma(clause) for (int i = 0; i < N; i++)                                                \
        {                                                                                          \
            _Pragma("omp ordered")                                                                 \
            {                                                                                      \
                CHECK(next == i);                                                                  \
                next++;                                                                            \
            }                                                                                      \
        }                                                                                          \
        CHECK(next == N);                                                                          \
    } while (0)
int main(void)
{
    while (more_rounds()) {
        CHECK_ORDERED("omp parallel for ordered schedule(static)");
        CHECK_ORDERED("omp parallel for ordered schedule(static, 3)");
        CHECK_ORDERED("omp parallel for ordered schedule(dynamic)");
        CHECK_ORDERED("omp parallel for ordered schedule(dynamic, 4)");
        CHECK_ORDERED("omp parallel for ordered schedule(guided)");
        CHECK_ORDERED("omp parallel for ordered schedule(runtime)");
    }
    return suite_result();
}
