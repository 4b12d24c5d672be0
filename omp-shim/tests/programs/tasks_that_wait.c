/* Tasks that wait for one another by hand: two, then one of each thread, then these within `taskwait` and `taskgroup`. With an
 * argument they yield instead of sleeping. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

static int arrived, yields;

static void arrive(int all)
{
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) < all) {
        if (yields) {
#pragma omp taskyield
        } else {
            usleep(100);
        }
    }
}

static void make(int all)
{
    arrived = 0;
    for (int i = 0; i < all; i++) {
#pragma omp task
        arrive(all);
    }
}

int main(int argc, char **argv)
{
    (void)argv;
    yields = argc > 1;
    int all = omp_get_max_threads();
#pragma omp parallel
#pragma omp single
    make(2);
    for (int round = 0; round < 3; round++) {
#pragma omp parallel
        {
#pragma omp single
            make(all);
#pragma omp single
            {
                make(all);
#pragma omp taskwait
            }
#pragma omp single
#pragma omp taskgroup
            make(all);
        }
    }
    puts("right");
    return 0;
}
