/* Loads the library guest.c, whose path GUEST holds, before its first region or, if LATE is set, after it,
 * and calls it outside and within regions of its own; with DEEP so that it prefers its own libraries. A
 * program, or a library itself. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long (*region_by_number)(void), (*orphaned)(void);

static int team(void)
{
    int size = 0;
#pragma omp parallel
    {
#pragma omp barrier
#pragma omp single
        size = omp_get_num_threads();
    }
    return size;
}

static int load(const char *path)
{
    void *library = dlopen(path, RTLD_NOW | (getenv("DEEP") ? RTLD_DEEPBIND : 0));
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 0;
    }
    region_by_number = (long (*)(void))dlsym(library, "region_by_number");
    orphaned = (long (*)(void))dlsym(library, "orphaned");
    return region_by_number && orphaned;
}

long host(int unused)
{
    const char *path = getenv("GUEST");
    int is_late = getenv("LATE") != NULL;
    (void)unused;
    if (!path || (!is_late && !load(path))) return 1;
    printf("%d\n", team());
    if (is_late && !load(path)) return 1;
    printf("%ld %ld\n", region_by_number(), orphaned());
    for (int round = 0; round < 3; round++) {
        long least = 1L << 60, most = 0, alone = 0;
        int done[64] = {0}, twice = 0;
#pragma omp parallel reduction(min : least) reduction(max : most)
        {
            long found = region_by_number();
            least = most = found;
#pragma omp single
            alone = orphaned();
            done[omp_get_thread_num()]++;
        }
        for (int i = 0; i < 64; i++) twice |= done[i] > 1;
        printf("%ld %ld %ld %d %d\n", least, most, alone, twice, team());
    }
    return 0;
}

#ifndef LIBRARY
int main(void) { return (int)host(0); }
#endif
