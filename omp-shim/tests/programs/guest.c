/* A library that others call within their regions and beside them, perhaps with another runtime than
 * theirs. Each function returns what it found, which must not depend on who manages the program. */
#include <omp.h>

enum { MOST = 64, N = 100 };

/* A region whose threads take the parts that their numbers say. */
long region_by_number(void)
{
    int done[MOST] = {0}, size = 0, deepest = 0;
    omp_set_num_threads(3);
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        __atomic_fetch_add(&done[me % MOST], 1, __ATOMIC_RELAXED);
#pragma omp barrier
#pragma omp master
        {
            size = omp_get_num_threads();
            deepest = omp_get_level() + 10 * omp_get_active_level() + 100 * omp_in_parallel() +
                      1000 * omp_get_ancestor_thread_num(1) + 10000 * omp_get_team_size(1);
        }
    }
    for (int i = 0; i < size; i++)
        if (done[i] != 1) return -1;
    return size + 10L * deepest;
}

/* Constructs outside its own regions: alone in its runtime's eyes, if that is another one. */
long orphaned(void)
{
    long sum = 0;
#pragma omp for schedule(static)
    for (int i = 0; i < N; i++) sum += i;
#pragma omp for schedule(dynamic, 3)
    for (int i = 0; i < N; i++) sum += i;
#pragma omp sections
    {
#pragma omp section
        sum += 10000;
#pragma omp section
        sum += 20000;
    }
#pragma omp single
    sum += 100000;
#pragma omp barrier
    return sum + 1000000L * omp_get_num_threads() + 10000000L * omp_get_level() +
           100000000L * omp_in_parallel();
}
