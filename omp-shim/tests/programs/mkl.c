/* A library that asks for as many threads as it was told of, as Intel's MKL does; with LIBRARY, that library. The program
 * loads it as Python loads extensions. A line of input is a number of threads to be set first, or empty; answered by the
 * size of the team that the library's next function had. */
#include <dlfcn.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef LIBRARY

static int set;

void MKL_Set_Num_Threads(int size) { set = size; }

int MKL_Get_Max_Threads(void) { return set ? set : omp_get_max_threads(); }

int multiply(void)
{
    int size = 0;
#pragma omp parallel num_threads(MKL_Get_Max_Threads())
#pragma omp master
    size = omp_get_num_threads();
    return size;
}

#else

int main(int count, char **arguments)
{
    char line[32];
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) return 1;
    void (*set)(int) = (void (*)(int))dlsym(library, "MKL_Set_Num_Threads");
    int (*multiply)(void) = (int (*)(void))dlsym(library, "multiply");
    while (fgets(line, sizeof line, stdin)) {
        int size = atoi(line);
        if (size) set(size);
        printf("%d\n", multiply());
        fflush(stdout);
    }
    return 0;
}

#endif
