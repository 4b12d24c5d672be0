/* Divides its work by a team size that it asked for once. In a smaller team a part is left out, and
 * the rest takes less time than all of it. */
#include <omp.h>
#include <stdio.h>

#define ROUNDS 400
#define MOST 1024

static double work(int turns)
{
    volatile double x = 1;
    for (int i = 0; i < turns; i++) x = x * 0.999 + 0.001;
    return x;
}

int main(void)
{
    int team = omp_get_max_threads(), wrong = 0;
    static int done[MOST];
    if (team > MOST) return 1;
    for (int round = 1; round <= ROUNDS; round++) {
#pragma omp parallel
        {
            work(200000 / team);
            done[omp_get_thread_num()] = round;
        }
        for (int i = 0; i < team; i++) wrong += done[i] != round;
    }
    printf("%s\n", wrong ? "wrong" : "right");
    return 0;
}
