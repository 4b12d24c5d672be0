/* Few iterations of very different length. */
#include "suite.h"
static double work(int amount)
{
    double x = 1;
    for (int i = 0; i < amount; i++)
        x = x * 0.999 + 0.001;
    return x;
}
int main(void)
{
    while (more_rounds()) {
        double sum = 0;
        int runs = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum, runs)
        for (int i = 0; i < 24; i++) {
            sum += work((i * 37 % 24) * 2000);
            runs++;
        }
        CHECK(runs == 24);
        CHECK(sum > 23.99 && sum < 24.01);
    }
    return suite_result();
}
