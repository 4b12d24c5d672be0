/* One thread begins regions while another loads and unloads the library that the first argument names, over and over,
 * so that loads begin, go on and end at every moment of a region's start. It leaves the last one, which the first
 * thread calls at once. Prints the sum that the regions came to, over the expected one, and what the library did. */
#include <dlfcn.h>
#include <omp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { LENGTH = 64 };

static const char *path;
static atomic_int regions;
static int (*_Atomic work)(void);

static void *load(void *times)
{
    for (long i = 0; i < (long)times; i++) {
        int begun = atomic_load(&regions);
        void *library = dlopen(path, RTLD_NOW);
        if (!library) abort();
        /* Some loads stay for the length of a region, most are gone before. */
        if (i % 4 == 0)
            while (atomic_load(&regions) == begun) sched_yield();
        dlclose(library);
    }
    void *library = dlopen(path, RTLD_NOW);
    if (!library) abort();
    atomic_store(&work, (int (*)(void))dlsym(library, "work"));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 1;
    path = argv[1];
    pthread_t loader;
    if (pthread_create(&loader, NULL, load, (void *)atol(argv[2]))) return 1;
    long sum = 0, expected = 0;
    do {
        long part = 0;
#pragma omp parallel reduction(+ : part)
        {
#pragma omp for schedule(dynamic, 3)
            for (int i = 0; i < LENGTH; i++) part += i;
#pragma omp barrier
#pragma omp single
            part += omp_get_num_threads();
        }
        sum += part;
        expected += LENGTH * (LENGTH - 1) / 2 + 3;
        atomic_fetch_add(&regions, 1);
    } while (!atomic_load(&work));
    printf("%s", sum == expected ? "right" : "wrong");
    printf(" %d\n", work());
    pthread_join(loader, NULL);
    return 0;
}
