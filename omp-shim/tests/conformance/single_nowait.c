/* single nowait: each is run by one thread, nobody waits. */
#include "suite.h"
enum { SINGLES = 40 };
int main(void)
{
    static int runs[SINGLES];
    while (more_rounds()) {
        memset(runs, 0, sizeof runs);
#pragma omp parallel
        for (int turn = 0; turn < SINGLES; turn++) {
#pragma omp single nowait
            {
#pragma omp atomic
                runs[turn]++;
            }
        }
        for (int turn = 0; turn < SINGLES; turn++)
            CHECK(runs[turn] == 1);
    }
    return suite_result();
}
