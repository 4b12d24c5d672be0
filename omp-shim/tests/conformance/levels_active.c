/* As many levels of regions have more than one thread as the program allows, none included. */
#include "suite.h"

enum { LEVELS = 3 };

static void check_level(int allowed, int level)
{
#pragma omp parallel num_threads(2)
    {
        int active = level < allowed ? level : allowed;
        CHECK(omp_get_num_threads() == (level <= allowed ? 2 : 1));
        CHECK(omp_in_parallel() == (allowed > 0));
        CHECK(omp_get_level() == level && omp_get_active_level() == active);
        if (level <= LEVELS)
            check_level(allowed, level + 1);
    }
}

int main(void)
{
    omp_set_dynamic(0);
    while (more_rounds()) {
        for (int allowed = 0; allowed <= LEVELS; allowed++) {
            omp_set_max_active_levels(allowed);
            CHECK(omp_get_max_active_levels() == allowed);
            check_level(allowed, 1);
        }
    }
    return suite_result();
}
