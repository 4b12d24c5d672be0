/* Regions within regions and from several threads of the program's own, some by clauses. Prints "wrong N" for the
 * teams whose threads did not each do their part once, or that had more threads than the program was told. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>

static int wrong;

static void check(int most)
{
    int done = 0, size = 0;
#pragma omp parallel reduction(+ : done)
    {
        done = 1;
#pragma omp single
        size = omp_get_num_threads();
    }
    if (done != size || size > most) __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED);
}

static void *work(void *unused)
{
    for (int round = 0; round < 200; round++) {
        check(omp_get_max_threads());
#pragma omp parallel num_threads(round % 3 + 1)
        check(omp_get_max_threads());
#pragma omp parallel if (round % 2)
        check(omp_get_max_threads());
    }
    return unused;
}

int main(void)
{
    pthread_t threads[3];
    omp_set_max_active_levels(2);
    for (int i = 0; i < 3; i++)
        if (pthread_create(&threads[i], 0, work, 0)) return 1;
    for (int i = 0; i < 3; i++) pthread_join(threads[i], 0);
    work(0);
    printf("wrong %d\n", wrong);
    return 0;
}
