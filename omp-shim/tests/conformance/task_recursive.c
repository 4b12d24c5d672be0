/* Tasks that make tasks and wait for them. */
#include "suite.h"
static int fib(int n)
{
    if (n < 2)
        return n;
    int a, b;
#pragma omp task shared(a) firstprivate(n) if (n > 4)
    a = fib(n - 1);
#pragma omp task shared(b) firstprivate(n) if (n > 4)
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}
int main(void)
{
    while (more_rounds()) {
        int value = 0;
#pragma omp parallel
#pragma omp single
        value = fib(12);
        CHECK(value == 144);
    }
    return suite_result();
}
