/* A critical section that calls a library with another runtime, whose region has one, too: two locks, as
 * each runtime has its own. Usage: critical_within OUTER INNER, the names of two libraries. Prints 2.
 * Compiled with OUTER or LIBRARY defined it is one of these. */
#if defined(OUTER)
int outer(int (*call)(void))
{
    int sum;
#pragma omp critical
    sum = call();
    return sum;
}
#elif defined(LIBRARY)
int NAME(void)
{
    int sum = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp critical
        sum++;
    }
    return sum;
}
#else
#include <dlfcn.h>
#include <stdio.h>

static void *function(const char *path, const char *name)
{
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    return library ? dlsym(library, name) : NULL;
}

int main(int argc, char **argv)
{
    if (argc < 3) return 2;
    int (*outer)(int (*)(void)) = (int (*)(int (*)(void)))function(argv[1], "outer");
    int (*inner)(void) = (int (*)(void))function(argv[2], "inner");
    if (!outer || !inner) return 3;
    printf("%d\n", outer(inner));
    return 0;
}
#endif
