/* The settings can be shown at any time. */
#include "suite.h"
int main(void)
{
    freopen("/dev/null", "w", stderr);
    while (more_rounds()) {
        omp_display_env(0);
        int sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp single
            omp_display_env(1);
            sum += 1;
        }
        if (sum < 1)
            return 1;
    }
    return suite_result();
}
