/* Dependences made by an iterator (OpenMP 5.0). */
#include "suite.h"
enum { N = 12 };
int main(void)
{
    while (more_rounds()) {
        int parts[N] = {0}, sum = 0;
#pragma omp parallel
#pragma omp single
        {
            for (int i = 0; i < N; i++) {
#pragma omp task depend(out : parts[i]) firstprivate(i)
                parts[i] = i + 1;
            }
#pragma omp task depend(iterator(int i = 0 : N), in : parts[i])
            for (int i = 0; i < N; i++)
                sum += parts[i];
        }
        CHECK(sum == N * (N + 1) / 2);
    }
    return suite_result();
}
