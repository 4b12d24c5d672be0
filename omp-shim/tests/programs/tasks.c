/* Tasks, in a program or (with LIBRARY) in a library that `late.c` loads. */
#include <omp.h>
#include <stdio.h>

int work(void)
{
    int done = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 20; i++) {
#pragma omp task shared(done)
        {
#pragma omp atomic
            done++;
        }
    }
    return done;
}

#ifndef LIBRARY
int main(void)
{
    printf("%d tasks\n", work());
    return 0;
}
#endif
