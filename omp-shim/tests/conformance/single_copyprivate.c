/* copyprivate: what the one thread computed, all have. */
#include "suite.h"
struct pair {
    int number;
    double share;
};
int main(void)
{
    while (more_rounds()) {
        int runs = 0;
#pragma omp parallel
        for (int turn = 0; turn < 10; turn++) {
            struct pair mine = {-1, -1};
            int values[3] = {0};
#pragma omp single copyprivate(mine, values)
            {
                mine.number = turn;
                mine.share = turn / 2.0;
                values[2] = turn + 1;
#pragma omp atomic
                runs++;
            }
            CHECK(mine.number == turn && mine.share == turn / 2.0 && values[2] == turn + 1);
        }
        CHECK(runs == 10);
    }
    return suite_result();
}
