/* Regions of four and of two threads in turn, by clauses; ends with one of two. Prints the sum of the sizes. */
#include <omp.h>
#include <stdio.h>

int main(void)
{
    int sum = 0;
    for (int i = 0; i < 200; i++) {
        int asked = i % 2 ? 2 : 4;
#pragma omp parallel num_threads(asked) reduction(+ : sum)
        sum++;
    }
    printf("%d\n", sum);
    return 0;
}
