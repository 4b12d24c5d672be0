/* Locks, and what the compiler calls for critical sections and barriers, are the same by name and by a handle of the
 * runtime's library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include "suite.h"

static void *handle(void)
{
    Dl_info runtime;
    void *known = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    return known && dladdr(known, &runtime) ? dlopen(runtime.dli_fname, RTLD_LAZY | RTLD_NOLOAD) : 0;
}

int main(void)
{
    int size = 0;
#pragma omp parallel num_threads(4) reduction(+ : size)
    size++;
    CHECK(size >= 1);
    void *runtime = handle();
    void (*set)(omp_lock_t *) = (void (*)(omp_lock_t *))dlsym(runtime, "omp_set_lock");
    void (*unset)(omp_lock_t *) = (void (*)(omp_lock_t *))dlsym(runtime, "omp_unset_lock");
    /* Both runtimes have gcc's. */
    void (*barrier)(void) = (void (*)(void))dlsym(runtime, "GOMP_barrier");
    void (*begin)(void) = (void (*)(void))dlsym(runtime, "GOMP_critical_start");
    void (*end)(void) = (void (*)(void))dlsym(runtime, "GOMP_critical_end");
    if (!set || !unset || !barrier || !begin || !end) return 2;
    omp_lock_t lock;
    omp_init_lock(&lock);
    while (a_few_rounds()) {
        int count = 0, arrived = 0, here = 0;
#pragma omp parallel num_threads(4)
        {
#pragma omp single
            here = omp_get_num_threads();
            for (int i = 0; i < 100; i++) {
                if (i & 1) set(&lock); else omp_set_lock(&lock);
                count++;
                if (i & 2) unset(&lock); else omp_unset_lock(&lock);
            }
            __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
            barrier();
            CHECK(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) == here);
        }
        CHECK(count == 100 * here);
#ifndef __clang__
        /* clang's code has a lock of its own for critical sections without a name. */
        count = 0;
#pragma omp parallel num_threads(4)
        for (int i = 0; i < 200; i++) {
            if (omp_get_thread_num() & 1) {
                begin();
                count++;
                end();
            } else {
#pragma omp critical
                count++;
            }
        }
        CHECK(count == 200 * here);
#endif
    }
    omp_destroy_lock(&lock);
    return suite_result();
}
