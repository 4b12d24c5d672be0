/* Loops over char and short, which are widened. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP(short, -600, 2, schedule(dynamic, 3));
        CHECK_LOOP_UP(unsigned short, 1, 1, schedule(guided));
        CHECK_LOOP(short, -600, 1, schedule(static, 5));
    }
    return suite_result();
}
