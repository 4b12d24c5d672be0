/* Static loops of every type, many times over. Prints "wrong N" for the iterations that did not run
 * exactly once, and "dealt A B": the number of threads that had iterations in the loop whose chunks
 * go to all threads in turn, and of those that had more than one in the loop that may be divided
 * among fewer.
 *
 * usage: static_loops [ROUNDS] */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define N 1000
static unsigned char runs[N];
static int owner[N];
static long wrong;

static volatile unsigned long long ull_zero, ull_many = N;
static volatile unsigned many = N;

static void check(int step)
{
#pragma omp barrier
#pragma omp single
    for (int i = 0; i < N; i++) {
        wrong += runs[i] != (i % step == 0);
        runs[i] = 0;
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1, in_turn = 0, divided = 0;
    for (int round = 0; round < rounds; round++) {
        long last = -1, sum = 0;
        in_turn = divided = 0;
#pragma omp parallel
        {
            int mine = 0;
#pragma omp for schedule(static) nowait
            for (int i = 0; i < N; i++) { runs[i]++; owner[i] = omp_get_thread_num(); mine++; }
            /* The same division: no barrier in between. */
#pragma omp for schedule(static)
            for (int i = 0; i < N; i++)
                if (owner[i] != omp_get_thread_num()) {
#pragma omp atomic
                    wrong++;
                }
#pragma omp atomic
            divided += mine > 1;
            check(1);
#pragma omp for schedule(static)
            for (unsigned i = 0; i < many; i += 3) runs[i]++;
            check(3);
#pragma omp for schedule(static)
            for (long i = N - 1; i >= 0; i--) runs[i]++;
            check(1);
#pragma omp for schedule(static) lastprivate(last)
            for (unsigned long long i = ull_zero; i < ull_many; i += 7) { runs[i]++; last = (long)i; }
            check(7);
#pragma omp for schedule(static, 5)
            for (int i = 0; i < N; i++) runs[i]++;
            check(1);
            mine = 0;
#pragma omp for schedule(static, 1)
            for (int i = 0; i < omp_get_num_threads(); i++) mine = 1;
#pragma omp atomic
            in_turn += mine;
#pragma omp for collapse(2) reduction(+ : sum)
            for (int i = 0; i < 10; i++)
                for (int j = 0; j < N / 10; j++) { runs[i * (N / 10) + j]++; sum += j; }
            check(1);
#pragma omp sections
            {
#pragma omp section
                runs[0]++;
#pragma omp section
                runs[1]++;
            }
#pragma omp single
            {
                wrong += runs[0] != 1 || runs[1] != 1;
                runs[0] = runs[1] = 0;
            }
        }
        wrong += last != 994 || sum != 10 * 99 * 100 / 2;
    }
    printf("wrong %ld\ndealt %d %d\n", wrong, in_turn, divided);
    return 0;
}
