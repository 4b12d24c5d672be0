/* num_threads is exact when dynamic adjustment is off. */
#include "suite.h"
int main(void)
{
    omp_set_dynamic(0);
    while (more_rounds())
        for (int wanted = 1; wanted <= 5; wanted++) {
            int count = 0, seen[5] = {0};
#pragma omp parallel num_threads(wanted)
            {
                CHECK(omp_get_num_threads() == wanted);
                seen[omp_get_thread_num()]++;
#pragma omp atomic
                count++;
            }
            CHECK(count == wanted);
            for (int i = 0; i < wanted; i++)
                CHECK(seen[i] == 1);
            int sum = 0;
#pragma omp parallel for num_threads(wanted) schedule(dynamic, 2) reduction(+ : sum)
            for (int i = 0; i < 50; i++)
                sum += i;
            CHECK(sum == 1225);
        }
    return suite_result();
}
