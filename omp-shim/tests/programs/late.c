/* Loads the library that the argument names between two regions. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

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

int main(int argc, char **argv)
{
    int before = team();
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
    int (*work)(void) = library ? (int (*)(void))dlsym(library, "work") : NULL;
    if (!work) return 1;
    int first = work(), after = team(), second = work();
    printf("%d %d %d %d\n", before, first, after, second);
    return 0;
}
