/* One region whose chunks each wait for a byte of input, so that a test can look in between. */
#include <stdio.h>
#include <unistd.h>

int main(void)
{
#pragma omp parallel for schedule(dynamic, 10) num_threads(2)
    for (int i = 0; i < 100; i++) {
        char byte;
        if (i % 10 == 0) {
            printf("chunk %d\n", i / 10);
            fflush(stdout);
            if (read(0, &byte, 1) != 1) _exit(1);
        }
    }
    printf("done\n");
    fflush(stdout);
    return 0;
}
