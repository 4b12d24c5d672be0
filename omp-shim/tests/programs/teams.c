/* Runs one region for each line of input and prints the size of its team.
 *
 *   (empty)      a region of unspecified size
 *   clause N     a region with num_threads(N)
 *   if           a region with if(0)
 *   set N        omp_set_num_threads(N), no region
 *   fset N       its Fortran form; f8set N with 8-byte integers
 *   dynamic N    omp_set_dynamic(N), no region; fdynamic, f8dynamic likewise
 *   nested       prints the teams of a region inside one of two threads, and of the outer one
 *   inset N      a region in which omp_set_num_threads(N) is called
 *   loop         a combined dynamic loop
 *   sections     a combined sections construct
 *   thread       a region begun by a new thread, then a second one by the same
 *   max          omp_get_max_threads(), no region
 *
 * With ONLY_REGIONS it has no call of omp_set_dynamic. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void omp_set_num_threads_(const int *);
void omp_set_num_threads_8_(const long long *);
void omp_set_dynamic_(const int *);
void omp_set_dynamic_8_(const long long *);

/* libomp has no 8-byte forms; the program must link with it all the same. */
#pragma weak omp_set_num_threads_8_
#pragma weak omp_set_dynamic_8_

#ifdef ONLY_REGIONS
#define omp_set_dynamic(n) abort()
#define omp_set_dynamic_(n) abort()
#define omp_set_dynamic_8_(n) abort()
#endif

static int region(void)
{
    int size = 0;
#pragma omp parallel
#pragma omp master
    size = omp_get_num_threads();
    return size;
}

static void *two_regions(void *sizes)
{
    ((int *)sizes)[0] = region();
    ((int *)sizes)[1] = region();
    return 0;
}

int main(void)
{
    char line[100], word[100];
    while (fgets(line, sizeof line, stdin)) {
        int n = 0, size = 0;
        word[0] = 0;
        sscanf(line, "%99s %d", word, &n);
        long long wide = n;
        if (!strcmp(word, "clause")) {
#pragma omp parallel num_threads(n)
#pragma omp master
            size = omp_get_num_threads();
        } else if (!strcmp(word, "if")) {
#pragma omp parallel if (n)
#pragma omp master
            size = omp_get_num_threads();
        } else if (!strcmp(word, "set")) {
            omp_set_num_threads(n);
        } else if (!strcmp(word, "fset")) {
            omp_set_num_threads_(&n);
        } else if (!strcmp(word, "f8set")) {
            omp_set_num_threads_8_(&wide);
        } else if (!strcmp(word, "dynamic")) {
            omp_set_dynamic(n);
        } else if (!strcmp(word, "fdynamic")) {
            omp_set_dynamic_(&n);
        } else if (!strcmp(word, "f8dynamic")) {
            omp_set_dynamic_8_(&wide);
        } else if (!strcmp(word, "max")) {
            size = omp_get_max_threads();
        } else if (!strcmp(word, "nested")) {
            int outer = 0, inner = 0;
            omp_set_max_active_levels(2);
#pragma omp parallel
#pragma omp master
            {
                outer = omp_get_num_threads();
                inner = region();
            }
            printf("%d in ", inner);
            size = outer;
        } else if (!strcmp(word, "inset")) {
#pragma omp parallel
#pragma omp master
            {
                size = omp_get_num_threads();
                omp_set_num_threads(n);
            }
        } else if (!strcmp(word, "loop")) {
#pragma omp parallel for schedule(dynamic)
            for (int i = 0; i < 100; i++)
                if (i == 50) size = omp_get_num_threads();
        } else if (!strcmp(word, "sections")) {
#pragma omp parallel sections
            {
#pragma omp section
                size = omp_get_num_threads();
            }
        } else if (!strcmp(word, "thread")) {
            int sizes[2];
            pthread_t thread;
            if (pthread_create(&thread, 0, two_regions, sizes) || pthread_join(thread, 0)) return 1;
            printf("%d then ", sizes[0]);
            size = sizes[1];
        } else {
            size = region();
        }
        printf("%d\n", size);
        fflush(stdout);
    }
    return 0;
}
