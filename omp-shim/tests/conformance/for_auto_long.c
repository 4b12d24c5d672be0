/* schedule(auto) over long. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP(long, -9000000000L, 70000000, schedule(auto));
        CHECK_LOOP(long, LONG_MIN + 1000, 9, schedule(auto));
        CHECK_LOOP(long, LONG_MAX - 600 * 11L, 11, schedule(auto));
    }
    return suite_result();
}
