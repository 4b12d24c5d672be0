/* A program that uses OpenMP only if somebody else brought it: it finds the shim's setter. */
#include <stdio.h>

void omp_set_num_threads(int) __attribute__((weak));

int main(void)
{
    if (omp_set_num_threads) omp_set_num_threads(3);
    printf("fine\n");
    return 0;
}
