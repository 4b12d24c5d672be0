/* Prime numbers by trial division, `--steps` times: the numbers below LIMIT in blocks of `--size`, each
 * block one small dynamic loop.
 *
 * A number takes as long as its smallest divisor is large, so the loops are uneven and dealt out in
 * small chunks; at the end of each the threads meet. This is a dynamic loop as people write it, with
 * a barrier every hundred microseconds or so.
 *
 * Checked: the count of primes in the known table at every power of ten.
 */
#include "workload.h"

#define LIMIT 1000000

/* The number of primes below 10, 100, 1,000, … */
static const struct {
    long below, count;
} known[] = {{10, 4}, {100, 25}, {1000, 168}, {10000, 1229}, {100000, 9592}, {1000000, 78498}};

static int is_prime(long number)
{
    if (number < 4)
        return number > 1;
    if (number % 2 == 0)
        return 0;
    for (long divisor = 3; divisor * divisor <= number; divisor += 2)
        if (number % divisor == 0)
            return 0;
    return 1;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "primes", "trial division, many small dynamic loops",
        (struct workload_range){1, LIMIT, 1000}, (struct workload_range){1, 10000000, 4});
    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        long count = 0;
        size_t next = 0;
        for (long first = 0; first < LIMIT;) {
            long end = first + w.size;
            if (end > known[next].below)
                end = known[next].below;
#pragma omp parallel for schedule(dynamic, 8) reduction(+ : count)
            for (long number = first; number < end; number++)
                count += is_prime(number);
            first = end;
            if (first == known[next].below) {
                if (count != known[next].count)
                    workload_wrong(&w, "%ld primes below %ld, there are %ld", count,
                                   known[next].below, known[next].count);
                next++;
            }
        }
        checksum += (double)count;
    }
    return workload_end(&w, checksum);
}
