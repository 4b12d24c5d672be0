/* Prints for three regions how many threads each has and what these are told that the next one would get (0 if
 * they are not told the same), then the latter once more outside. */
#include <omp.h>
#include <stdio.h>

int main(void)
{
    for (int round = 0; round < 3; round++) {
        int size = 0, most = 0, least = 1000;
#pragma omp parallel reduction(max : most, size) reduction(min : least)
        {
            size = omp_get_num_threads();
            most = least = omp_get_max_threads();
        }
        printf("%d of %d; ", size, most == least ? most : 0);
    }
    printf("after %d\n", omp_get_max_threads());
    return 0;
}
