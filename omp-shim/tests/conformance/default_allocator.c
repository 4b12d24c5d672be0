/* The default allocator is each thread's own setting. */
#include "suite.h"
int main(void)
{
    static const omp_allocator_handle_t kinds[] = {omp_default_mem_alloc, omp_large_cap_mem_alloc, omp_const_mem_alloc, omp_high_bw_mem_alloc};
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            omp_set_default_allocator(kinds[me]);
#pragma omp barrier
            CHECK(omp_get_default_allocator() == kinds[me]);
            void *place = omp_alloc(100, omp_null_allocator);
            omp_free(place, omp_null_allocator);
#pragma omp barrier
            CHECK(omp_get_default_allocator() == kinds[me]);
#pragma omp barrier
            omp_set_default_allocator(omp_default_mem_alloc);
        }
        CHECK(omp_get_default_allocator() == omp_default_mem_alloc);
    }
    return suite_result();
}
