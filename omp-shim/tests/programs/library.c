/* A library that uses OpenMP: its barrier and its thread numbers must come from the same runtime as
 * its regions. Returns -1 if they do not. */
#include <omp.h>

long NAME(int regions)
{
    long total = 0;
    for (int r = 0; r < regions; r++) {
        int arrived = 0, wrong = 0, size = 0;
        long sum = 0;
#pragma omp parallel num_threads(3) reduction(+ : sum)
        {
            __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
#pragma omp barrier
            if (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) != omp_get_num_threads())
                __atomic_store_n(&wrong, 1, __ATOMIC_SEQ_CST);
#pragma omp single
            size = omp_get_num_threads();
#pragma omp for schedule(dynamic, 2)
            for (int i = 0; i < 100; i += 2) sum += i;
        }
        if (wrong || size != 3) return -1;
        total += sum;
    }
    return total;
}
