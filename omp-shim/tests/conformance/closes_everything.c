/* A program that closes every descriptor it did not open. */
#define _GNU_SOURCE
#include "suite.h"
int main(void)
{
    long one = 0;
#pragma omp parallel reduction(+ : one)
    one++;
    closefrom(3);
    while (more_rounds()) {
        long sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
        for (int i = 0; i < 100; i++)
            sum += i;
        CHECK(sum == 4950);
    }
    return suite_result();
}
