/* schedule(auto) over int. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP(int, -400, 1, schedule(auto));
        CHECK_LOOP(int, -999, 3, schedule(auto));
        CHECK_LOOP(int, INT_MAX - 600 * 5, 5, schedule(auto));
    }
    return suite_result();
}
