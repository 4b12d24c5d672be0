/* Settings made by a handle of the runtime's library, as threadpoolctl makes them, are those of the regions that
 * follow; made within a region, they end with it. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "suite.h"

static void *function(const char *name)
{
    Dl_info runtime;
    void *handle = 0, *known = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    if (known && dladdr(known, &runtime))
        handle = dlopen(runtime.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    void *found = handle ? dlsym(handle, name) : 0;
    if (!found) {
        fprintf(stderr, "%s is not found\n", name);
        exit(2);
    }
    return found;
}

static int team(void)
{
    int size = 0;
#pragma omp parallel reduction(+ : size)
    size++;
    return size;
}

int main(void)
{
    CHECK(team() >= 1);
    void (*set_num_threads)(int) = (void (*)(int))function("omp_set_num_threads");
    void (*set_dynamic)(int) = (void (*)(int))function("omp_set_dynamic");
    void (*set_levels)(int) = (void (*)(int))function("omp_set_max_active_levels");
    void (*set_schedule)(omp_sched_t, int) =
        (void (*)(omp_sched_t, int))function("omp_set_schedule");
    set_dynamic(0);
    for (int round = 0; more_rounds(); round++) {
        int size = 1 + round % 5, chunk = 1 + round % 7, levels = 1 + round % 3;
        set_num_threads(size);
        set_schedule(omp_sched_static, chunk);
        set_levels(levels);
        CHECK(omp_get_max_threads() == size && team() == size);
        int sizes[5] = {0};
#pragma omp parallel
        {
            omp_sched_t kind;
            int now;
            omp_get_schedule(&kind, &now);
            CHECK((kind & ~omp_sched_monotonic) == omp_sched_static && now == chunk);
            CHECK(omp_get_max_threads() == size && omp_get_max_active_levels() == levels);
            CHECK(!omp_get_dynamic());
#pragma omp for schedule(runtime)
            for (int i = 0; i < 100; i++) CHECK(i / chunk % size == omp_get_thread_num());
            sizes[omp_get_thread_num()] = omp_get_num_threads();
            /* For this region alone. */
            set_num_threads(9);
            set_schedule(omp_sched_dynamic, 50);
            CHECK(omp_get_max_threads() == 9);
        }
        for (int i = 0; i < size; i++) CHECK(sizes[i] == size);
        CHECK(omp_get_max_threads() == size && team() == size);
    }
    return suite_result();
}
