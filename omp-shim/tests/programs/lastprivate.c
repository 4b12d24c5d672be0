/* Dynamic loops with lastprivate variables and with more loops in flight than have places; prints
 * "fine" or what is wrong. Chunks are asked for in ascending order, because libomp 14 may forget the last
 * values otherwise. */
#include <omp.h>
#include <stdio.h>

static volatile unsigned long long ull_zero, ull_many = 3001;

int main(void)
{
    for (int round = 0; round < 200; round++) {
        int a = -1;
        long b = -1, c = -1, sum = 0;
        unsigned long long d = 0;
        unsigned e = 0;
#pragma omp parallel for schedule(monotonic : dynamic) lastprivate(a)
        for (int i = 0; i < 1000; i += 3) a = i;
#pragma omp parallel
        {
#pragma omp for schedule(monotonic : dynamic) lastprivate(b)
            for (long i = 1000; i > 3; i -= 7) b = i;
#pragma omp for schedule(monotonic : guided, 3) lastprivate(c)
            for (long i = -50; i < 50; i++) c = i;
#pragma omp for schedule(monotonic : dynamic, 4) lastprivate(d)
            for (unsigned long long i = ull_zero; i < ull_many; i += 11) d = i;
#pragma omp for schedule(monotonic : dynamic, 4) lastprivate(e)
            for (unsigned i = 0; i < 4000000000u; i += 1000000u) e = i;
            for (int loop = 0; loop < 30; loop++)
#pragma omp for schedule(dynamic) nowait
                for (int i = 0; i < 20; i++)
#pragma omp atomic
                    sum += i;
        }
        if (a != 999 || b != 6 || c != 49 || d != 2992 || e != 3999000000u || sum != 30 * 190) {
            printf("%d %ld %ld %llu %u %ld\n", a, b, c, d, e, sum);
            return 1;
        }
    }
    printf("fine\n");
    return 0;
}
