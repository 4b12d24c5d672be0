/* schedule(dynamic) over unsigned long long, beyond the range of long. */
#include "suite_loops.h"
#include <limits.h>
int main(void)
{
    while (more_rounds()) {
        CHECK_LOOP(unsigned long long, 1ULL, 1, schedule(dynamic));
        CHECK_LOOP(unsigned long long, ULLONG_MAX - 600ULL * 3ULL, 3, schedule(dynamic, 7));
        CHECK_LOOP(unsigned long long, (ULLONG_MAX >> 1) - 200ULL, 1, schedule(dynamic, 7));
    }
    return suite_result();
}
