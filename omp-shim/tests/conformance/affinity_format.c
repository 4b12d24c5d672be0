/* What is told of a thread's affinity names the thread and its team. */
#include "suite.h"
int main(void)
{
    char text[200];
    omp_set_affinity_format("%n of %N at %L");
    CHECK(omp_get_affinity_format(text, sizeof text) == strlen("%n of %N at %L"));
    CHECK(!strcmp(text, "%n of %N at %L"));
    while (more_rounds()) {
#pragma omp parallel
        {
            char own[200], want[200];
            size_t length = omp_capture_affinity(own, sizeof own, NULL);
            snprintf(want, sizeof want, "%d of %d at %d", omp_get_thread_num(), omp_get_num_threads(),
                     omp_get_level());
            CHECK(length == strlen(want) && !strcmp(own, want));
        }
    }
    return suite_result();
}
