/* schedule(guided) over unsigned. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP_UP(unsigned, 1u, 1, schedule(guided));
        CHECK_LOOP_UP(unsigned, UINT_MAX - 600u * 3u, 3, schedule(guided, 7));
    }
    return suite_result();
}
