/* What is said of places agrees with itself, with and without places. */
#include "suite.h"
int main(int argc, char **argv)
{
    if (argc < 2) {
        char *again[] = {argv[0], "again", NULL};
        suite_require_environment("OMP_PLACES", "threads", again);
    }
    while (more_rounds()) {
        int places = omp_get_num_places();
        CHECK(places >= 0);
        for (int i = 0; i < places; i++) {
            int count = omp_get_place_num_procs(i), ids[1024];
            CHECK(count >= 0 && count <= 1024);
            omp_get_place_proc_ids(i, ids);
        }
#pragma omp parallel proc_bind(spread)
        {
            int place = omp_get_place_num(), parts = omp_get_partition_num_places(), nums[1024];
            CHECK(place >= -1 && place < (places ? places : 1));
            CHECK(parts >= 0 && parts <= 1024);
            omp_get_partition_place_nums(nums);
            CHECK(omp_get_proc_bind() >= 0);
        }
    }
    return suite_result();
}
