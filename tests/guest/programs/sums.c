/* Parallel sums, each of them checked, until a file exists.
 *
 *     sums FILE
 *
 * Says `ready PID TEAM` after the first, `so far` after every 20th, and `right` at the end, or `wrong` and what it found. */
#include <omp.h>
#include <stdio.h>
#include <unistd.h>

enum { NUMBERS = 100000 };

int main(int argc, char **argv)
{
    const long long expected = (long long)NUMBERS * (NUMBERS - 1) / 2;
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (long round = 0; argc == 2 && access(argv[1], F_OK) != 0; round++) {
        long long sum = 0;
        int team = 0;
#pragma omp parallel for schedule(dynamic, 100) reduction(+ : sum)
        for (int i = 0; i < NUMBERS; i++) {
            sum += i;
            if (i == 0)
                team = omp_get_num_threads();
        }
        if (sum != expected) {
            printf("wrong: %lld in round %ld\n", sum, round);
            return 1;
        }
        if (round == 0)
            printf("ready %d %d\n", (int)getpid(), team);
        if (round % 20 == 19)
            printf("so far\n");
        usleep(1000);
    }
    printf("right\n");
    return 0;
}
