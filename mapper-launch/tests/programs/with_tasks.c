/* Adds up what tasks find. */
#include <stdio.h>

int main(void)
{
    int sum = 0;
    for (int round = 0; round < 20; round++) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < 20; i++) {
#pragma omp task shared(sum)
            {
#pragma omp atomic
                sum++;
            }
        }
    }
    printf("%d\n", sum);
    return 0;
}
