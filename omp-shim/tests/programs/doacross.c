/* A doacross loop, in a program or (with LIBRARY) in a library that `late.c` loads. */
#include <omp.h>
#include <stdio.h>

int work(void)
{
    int done[21] = {0};
#pragma omp parallel num_threads(3)
#pragma omp for ordered(1)
    for (int i = 1; i <= 20; i++) {
#pragma omp ordered depend(sink : i - 1)
        done[i] = done[i - 1] + 1;
#pragma omp ordered depend(source)
    }
    return done[20];
}

#ifndef LIBRARY
int main(void)
{
    printf("%d iterations\n", work());
    return 0;
}
#endif
