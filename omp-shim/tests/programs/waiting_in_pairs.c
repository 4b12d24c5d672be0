/* In each round one thread waits, without OpenMP, until another has come to the round, ever other ones as
 * the seed says: usage waiting_in_pairs ROUNDS SEED. Prints the sum of the rounds of all threads. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

static volatile int come[64];

static uint32_t mixed(uint32_t x)
{
    x *= 2654435761u;
    x ^= x >> 15;
    x *= 2246822519u;
    return x ^ x >> 13;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    uint32_t seed = argc > 2 ? (uint32_t)atoi(argv[2]) : 1;
    long sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
        int me = omp_get_thread_num(), team = omp_get_num_threads();
        for (int round = 1; round <= rounds; round++) {
            uint32_t random = mixed(seed * 7919u + (uint32_t)round);
            int waits = (int)(random % (uint32_t)team);
            int other = (waits + 1 + (int)((random >> 8) % (uint32_t)(team - 1))) % team;
            come[me] = round;
            if (me == waits)
                while (come[other] < round) __builtin_ia32_pause();
            sum += round;
#pragma omp barrier
        }
    }
    printf("%ld\n", sum);
    return 0;
}
