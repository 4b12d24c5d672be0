/* master: thread 0 and nobody else; no barrier of its own. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int runs = 0, other = 0;
#pragma omp parallel
        for (int turn = 0; turn < 10; turn++) {
#pragma omp master
            {
                runs++;
                other += omp_get_thread_num() != 0;
            }
#pragma omp barrier
            CHECK(runs == turn + 1);
#pragma omp barrier
        }
        CHECK(runs == 10 && other == 0);
        int sum = 0;
#pragma omp parallel master reduction(+ : sum)
        sum += 4;
        CHECK(sum == 4);
    }
    return suite_result();
}
