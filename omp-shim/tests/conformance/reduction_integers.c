/* Every reduction operator over integers, on parallel, for and both. */
#include "suite.h"
enum { N = 250 };
int main(void)
{
    while (more_rounds()) {
        int sum = 100, product = 1, least = 1000, most = -1000, differ = 0;
        unsigned both = ~0u, any = 0, odd = 0;
        int all = 1, some = 0, none = 0;
        long team = 0, members = 0;
#pragma omp parallel for schedule(dynamic, 7) reduction(+ : sum) reduction(* : product)            \
    reduction(min : least) reduction(max : most) reduction(- : differ) reduction(& : both)         \
    reduction(| : any) reduction(^ : odd) reduction(&& : all) reduction(|| : some, none)
        for (int i = 0; i < N; i++) {
            sum += i;
            product *= i % 50 == 7 ? 3 : 1;
            least = i - 20 < least ? i - 20 : least;
            most = i > most ? i : most;
            differ -= 1;
            both &= ~(1u << i % 5);
            any |= 1u << i % 9;
            odd ^= (unsigned)i;
            all = all && i >= 0;
            some = some || i == 77;
            none = none || i > N;
        }
        CHECK(sum == 100 + N * (N - 1) / 2 && product == 243 && least == -20 && most == N - 1);
        CHECK(differ == -N && both == ~31u && any == 511 && odd == 1);
        CHECK(all && some && !none);
#pragma omp parallel reduction(+ : members)
        {
            members = 1;
#pragma omp single
            team = omp_get_num_threads();
        }
        CHECK(members == team);
    }
    return suite_result();
}
