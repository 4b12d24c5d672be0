/* default(none), shared, private and firstprivate arrays and structures on regions. */
#include "suite.h"
struct box {
    int values[8];
    char tag;
};
int main(void)
{
    while (more_rounds()) {
        struct box box = {{1, 2, 3, 4, 5, 6, 7, 8}, 'x'};
        int array[16], total = 0, scratch = -1;
        for (int i = 0; i < 16; i++)
            array[i] = i;
#pragma omp parallel default(none) firstprivate(box, array) private(scratch) shared(total, suite_failures, stderr)
        {
            scratch = omp_get_thread_num();
            box.values[0] += scratch;
            array[5] += scratch;
#pragma omp barrier
            CHECK(box.values[0] == 1 + scratch && box.values[7] == 8 && box.tag == 'x');
            CHECK(array[5] == 5 + scratch && array[15] == 15);
#pragma omp atomic
            total++;
        }
        CHECK(box.values[0] == 1 && array[5] == 5 && scratch == -1 && total >= 1);
    }
    return suite_result();
}
