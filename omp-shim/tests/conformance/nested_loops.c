/* Dynamic loops and reductions of nested teams do not mix. */
#include "suite.h"
int main(void)
{
    omp_set_max_active_levels(3);
    while (more_rounds()) {
        long total = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : total)
        for (int i = 0; i < 6; i++) {
            long sum = 0;
#pragma omp parallel for num_threads(2) schedule(dynamic, 3) reduction(+ : sum)
            for (int j = 0; j < 50; j++)
                sum += i * j;
            CHECK(sum == i * 1225);
            total += sum;
        }
        CHECK(total == 15 * 1225);
    }
    return suite_result();
}
