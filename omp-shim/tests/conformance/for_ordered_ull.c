/* ordered over unsigned long long, beyond what a signed loop can count. */
#include "suite.h"
static volatile unsigned long long from = ~0ULL - 1000, many = 60;
#define CHECK_ORDERED(clauses)                                                                     \
    do {                                                                                           \
        const unsigned long long first = from, end = first + many;                                 \
        unsigned long long next = first;                                                           \
        _Pragma(clauses) for (unsigned long long i = first; i < end; i++)                          \
        {                                                                                          \
            _Pragma("omp ordered")                                                                 \
            {                                                                                      \
                CHECK(next == i);                                                                  \
                next++;                                                                            \
            }                                                                                      \
        }                                                                                          \
        CHECK(next == end);                                                                        \
    } while (0)
int main(void)
{
    while (more_rounds()) {
        omp_set_schedule(omp_sched_dynamic, 2);
        CHECK_ORDERED("omp parallel for ordered schedule(static)");
        CHECK_ORDERED("omp parallel for ordered schedule(static, 3)");
        CHECK_ORDERED("omp parallel for ordered schedule(dynamic)");
        CHECK_ORDERED("omp parallel for ordered schedule(dynamic, 4)");
        CHECK_ORDERED("omp parallel for ordered schedule(guided, 2)");
        CHECK_ORDERED("omp parallel for ordered schedule(runtime)");
    }
    return suite_result();
}
