/* What the runtime answers by a handle of its library is what it answers by name. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "suite.h"

static int (*function(const char *name))(void)
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
    return (int (*)(void))found;
}

static void check(int (*const by_handle[5])(void))
{
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            CHECK(by_handle[0]() == omp_get_thread_num());
            CHECK(by_handle[1]() == omp_get_num_threads());
            CHECK(by_handle[2]() == omp_get_level());
            CHECK(by_handle[3]() == omp_get_active_level());
            CHECK(by_handle[4]() == omp_in_parallel());
        }
    }
}

int main(void)
{
    static const char *const names[] = {"omp_get_thread_num", "omp_get_num_threads", "omp_get_level",
                                        "omp_get_active_level", "omp_in_parallel"};
    int (*by_handle[5])(void);
    /* Looked up within a region first, by one thread for all. */
#pragma omp parallel num_threads(3)
    {
#pragma omp single
        for (int i = 0; i < 5; i++) by_handle[i] = function(names[i]);
        CHECK(by_handle[0]() == omp_get_thread_num());
        CHECK(by_handle[1]() == omp_get_num_threads());
        CHECK(by_handle[2]() == 1 && by_handle[3]() == 1 && by_handle[4]() != 0);
    }
    check(by_handle);
    for (int i = 0; i < 5; i++) by_handle[i] = function(names[i]);
    check(by_handle);
    return suite_result();
}
