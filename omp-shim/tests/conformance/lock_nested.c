/* Nested locks: the owner may set them again, and they count. */
#include "suite.h"
static omp_nest_lock_t lock;
static long depth_sum;
static void descend(int depth)
{
    omp_set_nest_lock(&lock);
    depth_sum += depth;
    if (depth > 1)
        descend(depth - 1);
    omp_unset_nest_lock(&lock);
}
int main(void)
{
    omp_init_nest_lock(&lock);
    while (more_rounds()) {
        long team = 0;
        depth_sum = 0;
#pragma omp parallel
        {
#pragma omp single
            team = omp_get_num_threads();
            for (int i = 0; i < 40; i++)
                descend(5);
            omp_set_nest_lock(&lock);
            CHECK(omp_test_nest_lock(&lock) == 2);
            omp_unset_nest_lock(&lock);
            omp_unset_nest_lock(&lock);
        }
        CHECK(depth_sum == 40 * 15 * team);
    }
    omp_destroy_nest_lock(&lock);
    return suite_result();
}
