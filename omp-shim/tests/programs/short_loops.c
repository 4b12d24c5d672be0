/* Many short dispensed loops, with and without barriers, in one region after another; prints sums. */
#include <omp.h>
#include <stdio.h>

int main(void)
{
    long long sum = 0;
    for (int round = 0; round < 10; round++) {
#pragma omp parallel reduction(+ : sum)
        for (int loop = 0; loop < 100; loop++) {
#pragma omp for schedule(dynamic, 3) nowait
            for (int i = 0; i < 50; i++) sum += i ^ loop;
#pragma omp for schedule(guided) nowait
            for (int i = 0; i < 50; i++) sum += i + loop;
#pragma omp for schedule(dynamic)
            for (long i = 0; i < 3; i++) sum += i;
#pragma omp for schedule(dynamic, 2) ordered
            for (int i = 0; i < 6; i++) {
#pragma omp ordered
                sum += i;
            }
#pragma omp for schedule(dynamic) ordered(1)
            for (int i = 0; i < 6; i++) {
#pragma omp ordered depend(sink : i - 1)
                sum += 2 * i;
#pragma omp ordered depend(source)
            }
#pragma omp single
            sum += 1;
        }
#pragma omp parallel for schedule(dynamic, 2)
        for (int i = 0; i < 10; i++)
#pragma omp atomic
            sum += i;
    }
    printf("%lld\n", sum);
    return 0;
}
