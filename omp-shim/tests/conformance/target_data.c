/* target data, enter data, exit data and update, without a device: the host's own memory. */
#include "suite.h"
enum { N = 64 };
int main(void)
{
    static int a[N], b[N];
    while (more_rounds()) {
        int host = omp_get_initial_device();
        for (int i = 0; i < N; i++) {
            a[i] = i;
            b[i] = 0;
        }
#pragma omp target data map(tofrom : a) map(from : b) device(host)
        {
#pragma omp target device(host)
            for (int i = 0; i < N; i++)
                b[i] = a[i] + 1;
#pragma omp target update from(b) device(host)
            for (int i = 0; i < N; i++)
                CHECK(b[i] == i + 1);
#pragma omp target update to(a) device(host)
        }
#pragma omp target enter data map(to : a) device(host)
#pragma omp target parallel for device(host)
        for (int i = 0; i < N; i++)
            a[i] *= 2;
#pragma omp target exit data map(from : a) device(host)
        for (int i = 0; i < N; i++)
            CHECK(a[i] == 2 * i && b[i] == i + 1);
    }
    return suite_result();
}
