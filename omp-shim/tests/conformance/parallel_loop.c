/* parallel loop, loop bound to a thread, and teams loop (OpenMP 5.0). */
#include "suite.h"
#if defined(__clang__) && __clang_major__ < 16
#error "clang 14 does not share out the loop construct"
#endif
enum { N = 700 };
int main(void)
{
    static int a[N];
    while (more_rounds()) {
        long sum = 0, own = 0, team = 0, of_teams = 0;
        memset(a, 0, sizeof a);
#pragma omp parallel loop reduction(+ : sum)
        for (int i = 0; i < N; i++) {
            a[i] += i;
            sum += i;
        }
#pragma omp parallel reduction(+ : own)
        {
#pragma omp single
            team = omp_get_num_threads();
#pragma omp loop bind(thread)
            for (int i = 0; i < N; i++)
                own += i;
        }
#pragma omp teams loop reduction(+ : of_teams)
        for (int i = 0; i < N; i++)
            of_teams += i;
        CHECK(sum == N * (N - 1) / 2 && own == team * sum && of_teams == sum);
        for (int i = 0; i < N; i++)
            CHECK(a[i] == i);
    }
    return suite_result();
}
