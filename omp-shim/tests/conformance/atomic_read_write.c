/* atomic read and write, with memory orders: no value is torn, and releases publish. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        unsigned long long word = 0;
        int data = 0, ready = 0;
#pragma omp parallel
        {
            unsigned long long me = (unsigned long long)omp_get_thread_num() + 1;
            for (int i = 0; i < 100; i++) {
                unsigned long long seen;
#pragma omp atomic write
                word = me << 32 | me;
#pragma omp atomic read
                seen = word;
                CHECK(seen >> 32 == (seen & 0xffffffff));
            }
#pragma omp single nowait
            {
                data = 42;
#pragma omp atomic write release
                ready = 1;
            }
            int is_ready;
#pragma omp atomic read acquire
            is_ready = ready;
            if (is_ready)
                CHECK(data == 42);
        }
        CHECK(ready == 1);
    }
    return suite_result();
}
