/* schedule(guided) over int. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP(int, -400, 1, schedule(guided));
        CHECK_LOOP(int, -999, 3, schedule(guided, 7));
        CHECK_LOOP(int, INT_MAX - 600 * 5, 5, schedule(guided, 7));
    }
    return suite_result();
}
