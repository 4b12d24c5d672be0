/* Loops of very many tiny chunks. */
#include "suite.h"
int main(void)
{
    while (more_rounds()) {
        long sum = 0;
#pragma omp parallel for schedule(dynamic, 1) reduction(+ : sum)
        for (int i = 0; i < 20000; i++)
            sum += i & 7;
        CHECK(sum == 70000);
#pragma omp parallel for schedule(guided, 1) reduction(+ : sum)
        for (unsigned long long i = 0; i < 20000; i++)
            sum -= (long)(i & 7);
        CHECK(sum == 0);
    }
    return suite_result();
}
