/* A member's stack is as deep as a thread's usually is. */
#include "suite.h"
static long deep(int levels)
{
    volatile char frame[10000];
    frame[0] = 1;
    return levels ? deep(levels - 1) + frame[0] : frame[0];
}
int main(void)
{
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            CHECK(deep(300) == 301);
#pragma omp barrier
            CHECK(deep(350) == 351);
        }
    }
    return suite_result();
}
