/* proc_bind is a wish about places; the results do not depend on it. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int sum = 0;
#pragma omp parallel for proc_bind(spread) reduction(+ : sum)
        for (int i = 0; i < 100; i++)
            sum += i;
#pragma omp parallel for proc_bind(close) schedule(dynamic) reduction(+ : sum)
        for (int i = 0; i < 100; i++)
            sum += i;
#pragma omp parallel proc_bind(master)
        CHECK(omp_get_num_threads() >= 1);
        CHECK(sum == 9900);
    }
    return suite_result();
}
