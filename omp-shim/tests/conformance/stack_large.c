/* Stacks as large as the user asks for can be used. */
#include "suite.h"
static long deep(int levels)
{
    volatile char frame[1 << 20];
    frame[0] = frame[sizeof frame - 1] = 1;
    return levels ? deep(levels - 1) + frame[0] : frame[sizeof frame - 1];
}
int main(int argc, char **argv)
{
    suite_require_environment("OMP_STACKSIZE", "512M", argv);
    while (a_few_rounds()) {
#pragma omp parallel num_threads(3)
        {
            if (omp_get_thread_num())
                CHECK(deep(40) == 41);
#pragma omp barrier
            if (omp_get_thread_num() == 1)
                CHECK(deep(100) == 101);
        }
    }
    return suite_result();
}
