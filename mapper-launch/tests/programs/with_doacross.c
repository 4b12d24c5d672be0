/* Virtual teams are not for it, and teams that follow are. */
#include <stdio.h>

int main(void)
{
    int done[401] = {0};
    for (int round = 0; round < 20; round++) {
#pragma omp parallel for ordered(1)
        for (int i = 1; i <= 400; i++) {
#pragma omp ordered depend(sink : i - 1)
            done[i] = done[i - 1] + 1;
#pragma omp ordered depend(source)
        }
    }
    printf("%d\n", done[400]);
    return 0;
}
