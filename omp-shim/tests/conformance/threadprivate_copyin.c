/* copyin, and copyprivate of threadprivate data. */
#include "suite.h"
static int value;
static double vector[4];
#pragma omp threadprivate(value, vector)
int main(void)
{
    for (int round = 1; more_rounds(); round++) {
        value = round;
        for (int i = 0; i < 4; i++)
            vector[i] = round * i;
#pragma omp parallel copyin(value, vector)
        {
            CHECK(value == round && vector[3] == 3.0 * round);
            value += omp_get_thread_num();
#pragma omp barrier
            CHECK(value == round + omp_get_thread_num());
#pragma omp single copyprivate(value)
            value = -round;
            CHECK(value == -round);
        }
    }
    return suite_result();
}
