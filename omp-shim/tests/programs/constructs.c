/* Every construct the shim stands in for, with results that any team size must give.
 *
 * Prints one line of results, then one line with the regions begun and the iterations of dispensed
 * loops, counted by the program itself. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static long regions, iterations;

#define REGION() (regions++)
#define ITERATION() __atomic_fetch_add(&iterations, 1, __ATOMIC_RELAXED)

/* Bounds the compiler does not know: with known ones gcc makes loops of unsigned long long into loops
 * of long. */
static volatile unsigned long long ull_zero = 0, ull_seven = 7, ull_many = 999;

/* Sums f over a loop of any kind. */
#define LOOP(name, schedule, type, from, condition, step)                                            \
    static long long name(void)                                                                      \
    {                                                                                                \
        long long sum = 0;                                                                           \
        REGION();                                                                                    \
        _Pragma(#schedule) for (type i = (from); i condition; step)                                  \
        {                                                                                            \
            ITERATION();                                                                             \
            sum += (long long)i * 3 + 1;                                                             \
        }                                                                                            \
        return sum;                                                                                  \
    }

LOOP(dynamic_one, omp parallel for schedule(dynamic) reduction(+ : sum), int, 0, < 1000, i++)
LOOP(dynamic_chunk, omp parallel for schedule(dynamic, 7) reduction(+ : sum), int, 3, < 1000, i++)
LOOP(dynamic_stride, omp parallel for schedule(dynamic, 3) reduction(+ : sum), int, 0, < 1001, i += 4)
LOOP(dynamic_down, omp parallel for schedule(dynamic, 3) reduction(+ : sum), int, 1000, > 0, i -= 3)
LOOP(dynamic_long, omp parallel for schedule(dynamic, 5) reduction(+ : sum), long, -500, < 500, i += 2)
LOOP(dynamic_unsigned, omp parallel for schedule(dynamic, 5) reduction(+ : sum), unsigned, 5, < 999, i += 3)
LOOP(dynamic_ull, omp parallel for schedule(dynamic, 5) reduction(+ : sum), unsigned long long, ull_zero + 5, < ull_many, i += 3)
LOOP(dynamic_ull_down, omp parallel for schedule(dynamic, 5) reduction(+ : sum), unsigned long long, ull_many, > ull_seven, i -= 4)
LOOP(monotonic, omp parallel for schedule(monotonic : dynamic, 4) reduction(+ : sum), int, 0, < 777, i++)
LOOP(guided, omp parallel for schedule(guided) reduction(+ : sum), int, 0, < 3000, i++)
LOOP(guided_stride, omp parallel for schedule(guided, 4) reduction(+ : sum), int, 0, < 3000, i += 7)
LOOP(guided_ull, omp parallel for schedule(monotonic : guided, 4) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i += ull_seven)
LOOP(runtime, omp parallel for schedule(runtime) reduction(+ : sum), int, 0, < 1234, i++)
LOOP(runtime_stride, omp parallel for schedule(runtime) reduction(+ : sum), long, 0, < 1234, i += 5)
LOOP(runtime_ull, omp parallel for schedule(runtime) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i += 5)
LOOP(monotonic_ull, omp parallel for schedule(monotonic : dynamic, 4) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i++)
LOOP(guided_any_ull, omp parallel for schedule(guided, 2) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i++)
LOOP(runtime_monotonic_ull, omp parallel for schedule(monotonic : runtime) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i++)
LOOP(runtime_nonmonotonic_ull, omp parallel for schedule(nonmonotonic : runtime) reduction(+ : sum), unsigned long long, ull_zero, < ull_many, i++)
LOOP(runtime_monotonic, omp parallel for schedule(monotonic : runtime) reduction(+ : sum), int, 0, < 1234, i++)
LOOP(runtime_nonmonotonic, omp parallel for schedule(nonmonotonic : runtime) reduction(+ : sum), int, 0, < 1234, i++)
LOOP(empty, omp parallel for schedule(dynamic) reduction(+ : sum), int, 5, < 5, i++)

/* Without a reduction gcc starts the region and the loop by one call, and the threads never say what
 * the increment is. */
#define COMBINED(schedule, from, condition, step)                                                    \
    REGION();                                                                                        \
    _Pragma(#schedule) for (long i = (from); i condition; step)                                      \
    {                                                                                                \
        ITERATION();                                                                                 \
        __atomic_fetch_add(&sum, i * 3 + 1, __ATOMIC_RELAXED);                                       \
    }

static long long combined(void)
{
    static long long sum;
    sum = 0;
    COMBINED(omp parallel for schedule(dynamic, 3), 0, < 1001, i++)
    COMBINED(omp parallel for schedule(dynamic, 3), 0, < 1001, i += 4)
    COMBINED(omp parallel for schedule(guided, 3), 1001, > 0, i -= 4)
    COMBINED(omp parallel for schedule(runtime), 0, < 1001, i += 4)
    COMBINED(omp parallel for schedule(monotonic : dynamic, 3), 1001, > 0, i -= 7)
    COMBINED(omp parallel for schedule(monotonic : guided, 3), 0, < 1001, i += 4)
    COMBINED(omp parallel for schedule(monotonic : runtime), 0, < 1001, i += 4)
    COMBINED(omp parallel for schedule(nonmonotonic : runtime), 0, < 1001, i += 4)
    COMBINED(omp parallel for schedule(dynamic, 3), 0, < 1001, i++)
    return sum;
}

/* Loops inside a region, with their own start functions, without barriers between them. */
static long long inside(void)
{
    long long sum = 0;
    REGION();
#pragma omp parallel reduction(+ : sum)
    {
#pragma omp for schedule(dynamic, 2) nowait
        for (int i = 0; i < 400; i += 3) { ITERATION(); sum += i; }
#pragma omp for schedule(guided, 2) nowait
        for (long i = 400; i > 0; i -= 3) { ITERATION(); sum += i; }
#pragma omp for schedule(dynamic, 2) nowait
        for (unsigned long long i = ull_zero; i < ull_many; i += 3) { ITERATION(); sum += (long long)i; }
#pragma omp for schedule(guided, 2)
        for (unsigned long long i = ull_many; i > ull_seven; i -= 3) { ITERATION(); sum += (long long)i; }
#pragma omp for schedule(runtime)
        for (int i = 0; i < 400; i++) { ITERATION(); sum += i; }
#pragma omp for schedule(runtime) nowait
        for (unsigned long long i = ull_zero; i < ull_many; i++) { ITERATION(); sum += (long long)i; }
#pragma omp for schedule(static)
        for (int i = 0; i < 400; i++) sum += i;
#pragma omp for schedule(static, 3)
        for (int i = 0; i < 400; i++) sum += i;
    }
    return sum;
}

static long long sections(void)
{
    long long a = 0, b = 0, c = 0;
    REGION();
#pragma omp parallel sections
    {
#pragma omp section
        a = 1;
#pragma omp section
        b = 20;
#pragma omp section
        c = 300;
    }
    return a + b + c;
}

static long long plain_and_static(void)
{
    long long sum = 0, more = 0;
    REGION();
#pragma omp parallel
    {
#pragma omp single
        sum += 5;
#pragma omp critical
        more += omp_get_num_threads() > 0 ? 0 : 1;
    }
    REGION();
#pragma omp parallel for schedule(static, 5) reduction(+ : sum)
    for (int i = 0; i < 500; i++) sum += i;
    return sum + more;
}

/* A region with many captured variables, some of which libomp's entry gets on the stack. */
static long long many_variables(long a, double b, int c, float d, short e, char f, long g, double h,
                                unsigned i, long long j)
{
    long long sum = 0;
    double product = 0;
    REGION();
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum, product) \
    firstprivate(a, b, c, d, e, f, g, h, i, j)
    for (int n = 0; n < 100; n++) {
        ITERATION();
        sum += a + c + e + f + g + i + j + n;
        product += b + d + h;
    }
    return sum + (long long)product;
}

/* A dispensed loop in each thread of a dispensed loop. */
static long long nested(void)
{
    long long sum = 0;
    omp_set_max_active_levels(2);
    REGION();
#pragma omp parallel for schedule(dynamic, 2) reduction(+ : sum) num_threads(2)
    for (int i = 0; i < 20; i += 2) {
        ITERATION();
        long long inner = 0;
        __atomic_fetch_add(&regions, 1, __ATOMIC_RELAXED);
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : inner) num_threads(2)
        for (int j = 0; j < 30; j += 5) { ITERATION(); inner += j + i; }
        sum += inner;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    long long results[32], check = 0;
    for (int round = 0; round < rounds; round++) {
        int n = 0;
        results[n++] = dynamic_one();
        results[n++] = dynamic_chunk();
        results[n++] = dynamic_stride();
        results[n++] = dynamic_down();
        results[n++] = dynamic_long();
        results[n++] = dynamic_unsigned();
        results[n++] = dynamic_ull();
        results[n++] = dynamic_ull_down();
        results[n++] = monotonic();
        results[n++] = guided();
        results[n++] = guided_stride();
        results[n++] = guided_ull();
        results[n++] = runtime();
        results[n++] = runtime_stride();
        results[n++] = runtime_ull();
        results[n++] = runtime_monotonic();
        results[n++] = runtime_nonmonotonic();
        results[n++] = empty();
        results[n++] = monotonic_ull();
        results[n++] = guided_any_ull();
        results[n++] = runtime_monotonic_ull();
        results[n++] = runtime_nonmonotonic_ull();
        results[n++] = combined();
        results[n++] = inside();
        results[n++] = sections();
        results[n++] = plain_and_static();
        results[n++] = many_variables(1, 2.5, 3, 4.5f, 5, 6, 7, 8.25, 9, 10);
        results[n++] = nested();
        for (int i = 0; i < n; i++) check = check * 31 + results[i];
        if (round == 0)
            for (int i = 0; i < n; i++) printf("%lld ", results[i]);
    }
    printf("%lld\n", check);
    printf("regions %ld iterations %ld\n", regions, iterations);
    return 0;
}
