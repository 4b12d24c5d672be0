/* flush: a thread waits in a loop for a flag that another sets, without any construct in between. */
#include "suite.h"
int main(void)
{
    while (a_few_rounds()) {
        int data = 0, flag = 0;
#pragma omp parallel shared(data, flag)
        {
            int me = omp_get_thread_num(), team = omp_get_num_threads();
            if (me == 0) {
                data = 17;
#pragma omp flush
#pragma omp atomic write
                flag = 1;
            } else if (me == team - 1) {
                int seen = 0;
                while (!seen) {
#pragma omp atomic read
                    seen = flag;
                }
#pragma omp flush
                CHECK(data == 17);
            }
        }
    }
    return suite_result();
}
