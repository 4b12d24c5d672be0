/* Small stacks are enough for small threads. */
#include "suite.h"
int main(int argc, char **argv)
{
    suite_require_environment("OMP_STACKSIZE", "32K", argv);
    while (more_rounds()) {
        long sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
            char text[100];
            snprintf(text, sizeof text, "%d", omp_get_thread_num());
            sum += text[0] > 0;
#pragma omp barrier
#pragma omp for schedule(dynamic, 3)
            for (int i = 0; i < 100; i++)
                sum += i;
        }
        CHECK(sum >= 4951);
    }
    return suite_result();
}
