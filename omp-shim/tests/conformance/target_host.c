/* target regions without a device run on the host. */
#include "suite.h"
enum { N = 256 };
int main(void)
{
    static int a[N];
    while (more_rounds()) {
        int sum = 0;
#pragma omp target map(from : a) device(omp_get_initial_device())
        for (int i = 0; i < N; i++)
            a[i] = i;
#pragma omp target teams distribute parallel for map(tofrom : a, sum) reduction(+ : sum)            \
    device(omp_get_initial_device())
        for (int i = 0; i < N; i++)
            sum += a[i];
        CHECK(sum == N * (N - 1) / 2);
    }
    return suite_result();
}
