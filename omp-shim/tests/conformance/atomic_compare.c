/* atomic compare and compare capture: exchange, minimum, maximum (OpenMP 5.1). */
#include "suite.h"
enum { N = 300 };
int main(void)
{
    static int winners[N];
    while (more_rounds()) {
        int least = N, most = -1, team = 0;
        memset(winners, 0, sizeof winners);
#pragma omp parallel
        {
#pragma omp for schedule(dynamic, 5) nowait
            for (int i = 0; i < N; i++) {
#pragma omp atomic compare
                least = i < least ? i : least;
#pragma omp atomic compare
                most = i > most ? i : most;
            }
            for (int i = 0; i < N; i++) {
                int before, mine = omp_get_thread_num() + 1;
#pragma omp atomic compare capture
                {
                    before = winners[i];
                    if (winners[i] == 0) {
                        winners[i] = mine;
                    }
                }
                if (before == 0) {
#pragma omp atomic
                    team++;
                }
            }
        }
        CHECK(least == 0 && most == N - 1);
        /* Each was taken by one. */
        CHECK(team == N);
        for (int i = 0; i < N; i++)
            CHECK(winners[i] > 0);
    }
    return suite_result();
}
