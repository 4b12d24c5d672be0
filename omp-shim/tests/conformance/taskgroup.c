/* taskgroup waits for descendants too, taskwait for children only. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int leaves = 0;
#pragma omp parallel
#pragma omp single
        {
#pragma omp taskgroup
            for (int i = 0; i < 8; i++) {
#pragma omp task shared(leaves)
                for (int j = 0; j < 4; j++) {
#pragma omp task shared(leaves)
                    {
#pragma omp atomic
                        leaves++;
                    }
                }
            }
            int seen;
#pragma omp atomic read
            seen = leaves;
            CHECK(seen == 32);
        }
    }
    return suite_result();
}
