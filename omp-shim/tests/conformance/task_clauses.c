/* untied, final, mergeable, priority, if and default(firstprivate-like) data rules. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        int runs = 0, finals = 0, undeferred = 0;
#pragma omp parallel
#pragma omp single
        {
            int mine = omp_get_thread_num();
            for (int i = 0; i < 20; i++) {
#pragma omp task untied priority(i) shared(runs)
                {
#pragma omp atomic
                    runs++;
                }
#pragma omp task final(i % 2 == 0) mergeable firstprivate(i) shared(finals)
                {
                    CHECK(omp_in_final() == (i % 2 == 0));
#pragma omp atomic
                    finals++;
                }
#pragma omp task if (0) shared(undeferred)
                {
                    CHECK(omp_get_thread_num() == mine);
                    undeferred++;
                }
                CHECK(undeferred == i + 1);
            }
        }
        CHECK(runs == 20 && finals == 20);
    }
    return suite_result();
}
