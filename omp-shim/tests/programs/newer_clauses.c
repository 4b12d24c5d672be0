/* How compilers announce the clauses num_threads(strict: ...) and num_threads(list), in programs and runtimes newer
 * than those at hand: the functions are called as clang does for OpenMP 6. With LIBRARY, the functions, for a libomp that
 * does not have them. Prints the sizes of five teams: without a clause, by each of the three, and without again. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>

#ifdef LIBRARY

static void push(void *location, int thread, int size)
{
    /* Not by way of a library before this one. */
    void (*real)(void *, int, int) =
        (void (*)(void *, int, int))dlsym(RTLD_NEXT, "__kmpc_push_num_threads");
    real(location, thread, size);
}

void __kmpc_push_num_threads_strict(void *location, int thread, int size, int severity, const char *message)
{
    if (severity == 2 && message) push(location, thread, size);
}

void __kmpc_push_num_threads_list(void *location, int thread, unsigned length, int *sizes)
{
    if (length == 2) push(location, thread, sizes[0]);
}

void __kmpc_push_num_threads_list_strict(void *location, int thread, unsigned length, int *sizes, int severity,
                                         const char *message)
{
    if (length == 2 && severity == 2 && message) push(location, thread, sizes[0]);
}

#else

int __kmpc_global_thread_num(void *);
void __kmpc_push_num_threads_strict(void *, int, int, int, const char *);
void __kmpc_push_num_threads_list(void *, int, unsigned, int *);
void __kmpc_push_num_threads_list_strict(void *, int, unsigned, int *, int, const char *);

static int team(void)
{
    int size = 0;
#pragma omp parallel
#pragma omp master
    size = omp_get_num_threads();
    return size;
}

int main(void)
{
    static struct {
        int reserved, flags, other[2];
        const char *source;
    } location = {0, 2, {0, 0}, ";newer_clauses.c;main;1;1;;"};
    int thread = __kmpc_global_thread_num(&location), sizes[] = {3, 1};
    printf("%d", team());
    __kmpc_push_num_threads_strict(&location, thread, 3, 2, "");
    printf(" %d", team());
    __kmpc_push_num_threads_list(&location, thread, 2, sizes);
    printf(" %d", team());
    __kmpc_push_num_threads_list_strict(&location, thread, 2, sizes, 2, "");
    printf(" %d", team());
    printf(" %d\n", team());
    return 0;
}

#endif
