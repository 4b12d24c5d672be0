/* Loads the library unserved.c, which the argument names, within a region that then uses it. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    long total = 0;
    long (*unserved)(void) = 0;
    if (argc < 2) return 1;
#pragma omp parallel reduction(+ : total)
    {
#pragma omp single
        {
            void *library = dlopen(argv[1], RTLD_NOW);
            unserved = library ? (long (*)(void))dlsym(library, "unserved") : 0;
        }
        if (unserved) total += unserved();
    }
    printf("%ld\n", total);
    return 0;
}
