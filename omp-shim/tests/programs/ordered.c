/* Ordered loops of every schedule and type, up and down, one after the other without waiting in between, with iterations that
 * leave their `ordered` region out, that take long before it, or that are waited for at a lock. Prints "right". */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

static int mistakes;
static omp_lock_t lock;

static void mistake(const char *where, long found, long expected)
{
    fprintf(stderr, "%s: %ld instead of %ld\n", where, found, expected);
    mistakes++;
}

/* Different for each iteration, and the same in each run. */
static int varies(long i, int below) { return (int)((unsigned long)(i * 2654435761u >> 7) % (unsigned)below); }

static double work(long i)
{
    volatile double sum = 0;
    for (int turn = varies(i, 2000); turn > 0; turn--) sum += turn;
    return sum;
}

#define LOOP(how, type, from, condition, step)                                                     \
    do {                                                                                           \
        static long last, seen;                                                                    \
        _Pragma("omp single")                                                                      \
        {                                                                                          \
            last = -1;                                                                             \
            seen = 0;                                                                              \
        }                                                                                          \
        _Pragma(how) for (type i = from; condition; step)                                          \
        {                                                                                          \
            long number = labs((long)(i - (from)));                                                \
            work(number);                                                                          \
            if (varies(number, 3) == 0) {                                                          \
                omp_set_lock(&lock);                                                               \
                work(number + 1);                                                                  \
                omp_unset_lock(&lock);                                                             \
            }                                                                                      \
            if (varies(number, 5)) {                                                               \
                _Pragma("omp ordered")                                                             \
                {                                                                                  \
                    if (number <= last) mistake(how, number, last);                                \
                    last = number;                                                                 \
                    seen++;                                                                        \
                }                                                                                  \
            }                                                                                      \
        }                                                                                          \
        _Pragma("omp single")                                                                      \
        {                                                                                          \
            long expected = 0;                                                                     \
            for (type i = from; condition; step)                                                   \
                expected += varies(labs((long)(i - (from))), 5) != 0;                              \
            if (seen != expected) mistake(how, seen, expected);                                    \
        }                                                                                          \
    } while (0)

#define ALL(type, from, condition, step)                                                           \
    do {                                                                                           \
        LOOP("omp for ordered schedule(static)", type, from, condition, step);                     \
        LOOP("omp for ordered schedule(static, 1)", type, from, condition, step);                  \
        LOOP("omp for ordered schedule(static, 3)", type, from, condition, step);                  \
        LOOP("omp for ordered schedule(dynamic)", type, from, condition, step);                    \
        LOOP("omp for ordered schedule(dynamic, 4)", type, from, condition, step);                 \
        LOOP("omp for ordered schedule(guided)", type, from, condition, step);                     \
        LOOP("omp for ordered schedule(runtime)", type, from, condition, step);                    \
    } while (0)

int main(void)
{
    static volatile unsigned long long far = ~0ULL - 1000;
    omp_init_lock(&lock);
    omp_set_schedule(omp_sched_dynamic, 2);
    for (int round = 0; round < 5; round++) {
#pragma omp parallel
        {
            ALL(int, 0, i < 60, i++);
            ALL(long, 100, i > 3, i -= 2);
            ALL(unsigned long long, far, i < far + 40, i++);
            /* One after the other, without waiting. */
            static long order[40][30];
            for (int loop = 0; loop < 40; loop++) {
#pragma omp for ordered schedule(dynamic) nowait
                for (int i = 0; i < 30; i++) {
                    work(i);
#pragma omp ordered
                    order[loop][i] = i ? order[loop][i - 1] + 1 : 1;
                }
            }
#pragma omp barrier
#pragma omp single
            for (int loop = 0; loop < 40; loop++) {
                if (order[loop][29] != 30) mistake("nowait", order[loop][29], 30);
                order[loop][29] = 0;
            }
        }
        /* Shared memory for the last value comes by another start. */
        int last = -1;
#pragma omp parallel for ordered schedule(static, 2) lastprivate(conditional : last)
        for (int i = 0; i < 50; i++) {
            if (i % 7 == 3) last = i;
#pragma omp ordered
            work(i);
        }
        if (last != 45) mistake("lastprivate", last, 45);
    }
    puts(mistakes ? "wrong" : "right");
    return mistakes != 0;
}
