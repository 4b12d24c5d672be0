/* errno and variables of the C compiler's thread-local storage belong to the thread. */
#include "suite.h"
#include <errno.h>
static __thread int mine = 7;
int main(void)
{
    while (more_rounds()) {
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            mine = 100 + me;
            errno = 200 + me;
#pragma omp barrier
            CHECK(mine == 100 + me && errno == 200 + me);
#pragma omp barrier
        }
    }
    return suite_result();
}
