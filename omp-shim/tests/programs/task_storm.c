/* Tasks of every kind, over and over: usage task_storm ROUNDS. Prints "right" if all came to what they had to. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Fortran's. */
int omp_in_final_(void);

static int wrong;

static void check(int is_right, const char *what)
{
    if (is_right) return;
    fprintf(stderr, "%s is wrong\n", what);
#pragma omp atomic write
    wrong = 1;
}

static long fib(int n)
{
    long a = 0, b = 0;
    int mine = omp_get_thread_num();
    if (n < 2) return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b)
    b = fib(n - 2);
#pragma omp taskwait
    check(omp_get_thread_num() == mine, "the thread of a tied task");
    return a + b;
}

/* Parts as unequal as can be, each of which waits for its own. */
static long uneven(int n)
{
    long first = 0, rest = 0;
    if (n == 0) return 1;
#pragma omp taskgroup
    {
#pragma omp task shared(rest)
        rest = uneven(n - 1);
#pragma omp task shared(first)
        first = fib(n % 7);
    }
    return first + rest;
}

enum { SIDE = 12 };

static void wavefront(void)
{
    long cells[SIDE + 1][SIDE + 1] = {{0}};
    for (int i = 0; i <= SIDE; i++) cells[i][0] = cells[0][i] = 1;
    for (int i = 1; i <= SIDE; i++)
        for (int j = 1; j <= SIDE; j++) {
#pragma omp task depend(in : cells[i - 1][j], cells[i][j - 1]) depend(out : cells[i][j]) shared(cells)
            cells[i][j] = cells[i - 1][j] + cells[i][j - 1];
        }
    /* Executed at once, after those that it depends on. */
    long last = 0;
#pragma omp task if (0) depend(in : cells[SIDE][SIDE]) shared(cells, last)
    last = cells[SIDE][SIDE];
    check(last == 2704156, "a wavefront");
    long begun = 0, ended = 0;
#pragma omp task depend(out : begun) shared(begun, ended)
    {
#pragma omp task final(1) if (0) shared(begun)
        {
#pragma omp task shared(begun)
            begun = omp_in_final() && omp_in_final_();
        }
    }
#pragma omp task depend(in : begun) depend(out : ended) shared(begun, ended)
    ended = begun;
#pragma omp taskwait depend(in : ended)
    check(ended == 1, "a wait for one task");
#pragma omp taskwait
}

static long length;

/* Each link makes the next one and ends. */
static void chain(int links)
{
#pragma omp atomic
    length++;
    if (links > 1) {
#pragma omp task
        chain(links - 1);
    }
}

static void groups(int depth, long *sum)
{
#pragma omp task
    {
#pragma omp atomic
        *sum += 1;
        if (depth > 0) {
            groups(depth - 1, sum);
            groups(depth - 1, sum);
        }
    }
}

static long critical, locked;
static omp_lock_t lock;

static void in_turn(void)
{
    for (int i = 0; i < 40; i++) {
#pragma omp task
        {
#pragma omp critical
            critical++;
            omp_set_lock(&lock);
            locked++;
#pragma omp taskyield
            omp_unset_lock(&lock);
        }
    }
}

static void loops(void)
{
    enum { LENGTH = 500 };
    char seen[LENGTH] = {0};
    long sum = 0;
#pragma omp taskloop grainsize(7) shared(seen)
    for (int i = 0; i < LENGTH; i++) seen[i]++;
#pragma omp taskloop num_tasks(5) shared(seen)
    for (unsigned long long i = LENGTH; i > 0; i -= 2) seen[i - 1]++;
    for (int i = 0; i < LENGTH; i++) sum += seen[i] == 1 + i % 2;
    check(sum == LENGTH, "a taskloop");
}

/* The first of two that depend on each other is made before the group of the second. */
static void follow_from_within_a_group(void)
{
    int done = 0, right = 0;
#pragma omp task depend(out : done) shared(done)
    done = 1;
#pragma omp taskgroup
    {
#pragma omp task depend(in : done) shared(done, right)
        right = done;
    }
    check(right, "a task in a group that depends on one outside");
}

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 1;
    omp_init_lock(&lock);
    for (long round = 0; round < rounds; round++) {
        long fibs = 0, sum = 0, parts = 0, made = 0, of_all = 0, size = 0;
        length = critical = locked = 0;
#pragma omp parallel
        {
#pragma omp single nowait
            {
                size = omp_get_num_threads();
                fibs = fib(15);
            }
            /* The others are at the barrier, or make some of their own. */
#pragma omp for
            for (int i = 0; i < 50; i++) {
#pragma omp task shared(made)
                {
#pragma omp atomic
                    made++;
                }
            }
            check(made == 50, "the tasks of a loop at its end");
#pragma omp single
            {
                parts = uneven(40);
                chain(2000);
                in_turn();
                wavefront();
                loops();
#pragma omp taskgroup
                groups(6, &sum);
                check(sum == 127, "the tasks of a group at its end");
            }
            follow_from_within_a_group();
            check(length == 2000, "a chain after a barrier");
#pragma omp task shared(of_all)
            {
#pragma omp atomic
                of_all++;
            }
        }
        check(fibs == 610, "recursion");
        check(parts == 1 + 5 * (1 + 1 + 2 + 3 + 5 + 8) + 0 + 1 + 1 + 2 + 3 + 5, "uneven recursion");
        check(critical == 40 && locked == 40, "a critical section or lock");
        check(of_all == size, "the tasks at the end of a region");
    }
    puts(wrong ? "wrong" : "right");
    return wrong;
}
