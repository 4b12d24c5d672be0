/* A library whose regions end with a barrier of their own: the compiler turns that call into a jump, so
 * that it seems to come from whoever called the region's body. Returns -1 if a thread does not wait
 * there. */
#include <omp.h>

static int arrived, early;

/* Not inlined, so that the call of it is all that is left of the region's end. */
__attribute__((noinline, optimize("O2"))) static void meet(void)
{
    __atomic_fetch_add(&arrived, 1, __ATOMIC_SEQ_CST);
#pragma omp barrier
}

__attribute__((optimize("O2"))) long NAME(int regions)
{
    for (int r = 0; r < regions; r++) {
        arrived = early = 0;
#pragma omp parallel num_threads(3)
        {
            meet();
            if (__atomic_load_n(&arrived, __ATOMIC_SEQ_CST) != 3)
                __atomic_fetch_add(&early, 1, __ATOMIC_SEQ_CST);
#pragma omp barrier
        }
        if (arrived != 3 || early) return -1;
    }
    return 24500;
}
