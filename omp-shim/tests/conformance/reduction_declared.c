/* Reductions that the program declares, with and without an initializer. */
#include "suite.h"
struct range {
    int low, high;
};
static struct range join(struct range a, struct range b)
{
    return (struct range){a.low < b.low ? a.low : b.low, a.high > b.high ? a.high : b.high};
}
#pragma omp declare reduction(join : struct range : omp_out = join(omp_out, omp_in))               \
    initializer(omp_priv = {1 << 30, -(1 << 30)})
struct tally {
    long count, sum;
};
#pragma omp declare reduction(+ : struct tally : omp_out.count += omp_in.count,                    \
                                  omp_out.sum += omp_in.sum)
int main(void)
{
    while (more_rounds()) {
        struct range range = {50, 60};
        struct tally tally = {1, 1};
#pragma omp parallel for schedule(guided) reduction(join : range) reduction(+ : tally)
        for (int i = 0; i < 300; i++) {
            int value = i * 131 % 300 - 100;
            range = join(range, (struct range){value, value});
            tally.count++;
            tally.sum += value;
        }
        CHECK(range.low == -100 && range.high == 199);
        CHECK(tally.count == 301 && tally.sum == 1 + 300 * 299 / 2 - 300 * 100);
    }
    return suite_result();
}
