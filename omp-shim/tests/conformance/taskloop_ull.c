/* taskloop over unsigned long long, beyond what a signed loop can count. */
#include "suite.h"
enum { N = 120 };
static volatile unsigned long long from = ~0ULL - 4000, step = 3;
int main(void)
{
    static int hits[N];
    while (more_rounds()) {
        const unsigned long long first = from, stride = step, end = first + N * stride;
        unsigned long long last = 0;
        long sum = 0;
        memset(hits, 0, sizeof hits);
#pragma omp parallel
#pragma omp single
        {
#pragma omp taskloop grainsize(7)
            for (unsigned long long i = first; i < end; i += stride)
                hits[(i - first) / stride]++;
#pragma omp taskloop num_tasks(5) lastprivate(last)
            for (unsigned long long i = first; i < end; i += stride) {
                hits[(i - first) / stride]++;
                last = i;
            }
#pragma omp taskloop reduction(+ : sum)
            for (unsigned long long i = end; i > first; i -= stride)
                sum += (long)(i - first);
#pragma omp taskloop if (0) priority(1)
            for (unsigned long long i = first; i < end; i += stride)
                hits[(i - first) / stride]++;
        }
        CHECK(last == end - stride && sum == 3 * N * (N + 1) / 2);
        for (int i = 0; i < N; i++)
            CHECK(hits[i] == 3);
    }
    return suite_result();
}
