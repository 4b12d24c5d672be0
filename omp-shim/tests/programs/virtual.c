/* Every construct that virtual teams serve, checked by itself. Prints "right" or what was wrong. */
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int wrong;
#define CHECK(condition) \
    do { \
        if (!(condition) && __atomic_fetch_add(&wrong, 1, __ATOMIC_RELAXED) < 5) \
            printf("line %d: %s (thread %d)\n", __LINE__, #condition, omp_get_thread_num()); \
    } while (0)

#define SIZE 1000
static int n;
static int hits[SIZE];
static int mine;
#pragma omp threadprivate(mine)

static void clear(void) { memset(hits, 0, sizeof hits); }

static void all_once(int line)
{
    for (int i = 0; i < SIZE; i++)
        if (hits[i] != 1) {
            printf("line %d: iteration %d ran %d times\n", line, i, hits[i]);
            wrong++;
            return;
        }
}

static void identity(void)
{
    int seen[64] = {0}, levels = 0;
#pragma omp parallel reduction(+ : levels)
    {
        CHECK(omp_get_num_threads() == n);
        CHECK(omp_in_parallel() == (n > 1));
        CHECK(omp_get_level() == 1);
        CHECK(omp_get_active_level() == (n > 1));
        CHECK(omp_get_ancestor_thread_num(1) == omp_get_thread_num());
        CHECK(omp_get_ancestor_thread_num(0) == 0);
        CHECK(omp_get_ancestor_thread_num(2) == -1);
        CHECK(omp_get_team_size(1) == n && omp_get_team_size(0) == 1);
        seen[omp_get_thread_num()]++;
        levels += omp_get_level();
    }
    for (int i = 0; i < n; i++) CHECK(seen[i] == 1);
    CHECK(levels == n);
    CHECK(omp_get_level() == 0 && !omp_in_parallel() && omp_get_num_threads() == 1);
}

static void barriers(void)
{
    int phase[64] = {0};
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        for (int round = 1; round <= 50; round++) {
            phase[me] = round;
#pragma omp barrier
            for (int i = 0; i < n; i++) CHECK(phase[i] == round);
#pragma omp barrier
        }
    }
}

#define LOOP(...) \
    do { \
        clear(); \
        PRAGMA(omp parallel for schedule(__VA_ARGS__)) \
        for (int i = 0; i < SIZE; i++) hits[i]++; \
        all_once(__LINE__); \
        clear(); \
        PRAGMA(omp parallel) \
        { \
            PRAGMA(omp for schedule(__VA_ARGS__) nowait) \
            for (int i = SIZE / 2 - 1; i >= 0; i--) hits[i]++; \
            PRAGMA(omp for schedule(__VA_ARGS__)) \
            for (unsigned long i = SIZE / 2; i < SIZE; i += 2) hits[i]++; \
            PRAGMA(omp for schedule(__VA_ARGS__)) \
            for (unsigned long long i = SIZE - 1; i > SIZE / 2; i -= 2) hits[i]++; \
        } \
        all_once(__LINE__); \
    } while (0)
#define PRAGMA(text) _Pragma(#text)

static void loops(void)
{
    LOOP(static);
    LOOP(static, 7);
    LOOP(dynamic);
    LOOP(dynamic, 13);
    LOOP(guided);
    LOOP(guided, 5);
    LOOP(auto);
    LOOP(runtime);
    LOOP(monotonic : dynamic, 3);
    LOOP(nonmonotonic : guided);
    omp_set_schedule(omp_sched_guided, 3);
    LOOP(runtime);
    omp_set_schedule(omp_sched_static, 0);
    LOOP(runtime);
    omp_set_schedule(omp_sched_static, 4);
    LOOP(runtime);
    omp_set_schedule(omp_sched_dynamic, 2);
    LOOP(monotonic : runtime);
}

/* With a static schedule each iteration has its thread. */
static void static_owners(void)
{
    int owner[SIZE], again[SIZE];
#pragma omp parallel for schedule(static, 3)
    for (int i = 0; i < SIZE; i++) owner[i] = omp_get_thread_num();
    for (int i = 0; i < SIZE; i++) CHECK(owner[i] == i / 3 % n);
    omp_set_schedule(omp_sched_static, 3);
#pragma omp parallel for schedule(runtime)
    for (int i = 0; i < SIZE; i++) again[i] = omp_get_thread_num();
    CHECK(!memcmp(owner, again, sizeof owner));
}

static void reductions(void)
{
    long sum = 0;
    double product = 1;
    int most = -1;
#pragma omp parallel for reduction(+ : sum) reduction(* : product) reduction(max : most)
    for (int i = 1; i <= 20; i++) {
        sum += i;
        product *= i;
        most = most < i ? i : most;
    }
    CHECK(sum == 210 && product == 2432902008176640000.0 && most == 20);
}

static void singles(void)
{
    int count = 0, masters = 0;
#pragma omp parallel
    {
        for (int i = 0; i < 30; i++) {
#pragma omp single
            count++;
#pragma omp single nowait
            {
#pragma omp atomic
                count++;
            }
            int copy = -1;
#pragma omp single copyprivate(copy)
            copy = i;
            CHECK(copy == i);
#pragma omp master
            masters++;
        }
    }
    CHECK(count == 60 && masters == 30);
}

static void sections(void)
{
    int ran[5] = {0};
#pragma omp parallel sections
    {
#pragma omp section
        ran[0]++;
#pragma omp section
        ran[1]++;
#pragma omp section
        ran[2]++;
    }
#pragma omp parallel
    {
#pragma omp sections nowait
        {
#pragma omp section
            ran[3]++;
#pragma omp section
            ran[4]++;
        }
    }
    for (int i = 0; i < 5; i++) CHECK(ran[i] == 1);
}

static void exclusions(void)
{
    long counts[5] = {0};
    long double large = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel
    {
        for (int i = 0; i < 200; i++) {
#pragma omp critical
            counts[0]++;
#pragma omp critical(name)
            {
                counts[1]++;
                /* Others find it held. */
                if (i % 50 == 0) sched_yield();
            }
#pragma omp atomic
            large += 1;
            omp_set_lock(&lock);
            counts[2]++;
            if (i % 50 == 0) sched_yield();
            omp_unset_lock(&lock);
            while (!omp_test_lock(&lock)) continue;
            counts[3]++;
            omp_unset_lock(&lock);
            omp_set_nest_lock(&nest);
            omp_set_nest_lock(&nest);
            counts[4]++;
            if (i % 50 == 0) sched_yield();
            omp_unset_nest_lock(&nest);
            omp_unset_nest_lock(&nest);
        }
    }
    for (int i = 0; i < 5; i++) CHECK(counts[i] == 200 * n);
    CHECK(large == 200 * n);
    /* A lock that is held across a barrier by one, which the others leave alone. */
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0) omp_set_lock(&lock);
#pragma omp barrier
        CHECK(!omp_test_lock(&lock));
#pragma omp barrier
        if (omp_get_thread_num() == 0) omp_unset_lock(&lock);
    }
}

/* What is a thread's own stays its own, within a region and from one to the next. */
static void storage(void)
{
    pthread_t self[64];
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        self[me] = pthread_self();
        mine = me + 100;
        errno = me + 1000;
        for (int i = 0; i < 10; i++) {
#pragma omp barrier
            CHECK(errno == me + 1000);
            CHECK(mine == me + 100);
        }
    }
#pragma omp parallel
    {
        CHECK(mine == omp_get_thread_num() + 100);
        CHECK(pthread_equal(self[omp_get_thread_num()], pthread_self()));
    }
    for (int i = 0; i < n; i++)
        for (int j = 0; j < i; j++) CHECK(!pthread_equal(self[i], self[j]));
    mine = 7;
#pragma omp parallel copyin(mine)
    CHECK(mine == 7);
}

static void nested(void)
{
    int total = 0, most = omp_get_max_active_levels();
    omp_set_max_active_levels(1);
#pragma omp parallel reduction(+ : total)
    {
        int outer = omp_get_thread_num(), inner = 0;
#pragma omp parallel num_threads(3) reduction(+ : inner)
        {
            inner++;
            CHECK(omp_get_num_threads() == 1 && omp_get_thread_num() == 0);
            CHECK(omp_get_level() == 2 && omp_get_active_level() == 1);
            CHECK(omp_get_ancestor_thread_num(1) == outer);
#pragma omp barrier
        }
        CHECK(omp_get_thread_num() == outer && omp_get_num_threads() == n);
#pragma omp barrier
        total += inner;
    }
    CHECK(total == n);
    omp_set_max_active_levels(2);
    total = 0;
#pragma omp parallel reduction(+ : total)
    {
        int outer = omp_get_thread_num(), inner = 0;
#pragma omp parallel num_threads(3) reduction(+ : inner)
        {
            inner++;
            CHECK(omp_get_num_threads() == 3);
            CHECK(omp_get_level() == 2 && omp_get_active_level() == 2);
            CHECK(omp_get_ancestor_thread_num(1) == outer && omp_get_team_size(1) == n);
            CHECK(omp_get_ancestor_thread_num(2) == omp_get_thread_num());
#pragma omp barrier
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 30; i++) inner++;
        }
#pragma omp barrier
        CHECK(omp_get_thread_num() == outer);
        total += inner;
    }
    CHECK(total == n * 33);
    omp_set_max_active_levels(most);
}

/* What is set before a region holds within it; what is set within it does not hold after. */
static void settings(void)
{
    omp_sched_t kind;
    int chunk;
    omp_set_schedule(omp_sched_guided, 17);
#pragma omp parallel private(kind, chunk)
    {
        omp_get_schedule(&kind, &chunk);
        CHECK((kind & 0xff) == omp_sched_guided && chunk == 17);
        CHECK(omp_get_max_threads() == n);
#pragma omp barrier
        omp_set_num_threads(omp_get_thread_num() + 5);
        CHECK(omp_get_max_threads() == omp_get_thread_num() + 5);
    }
    CHECK(omp_get_max_threads() == n);
#pragma omp parallel
    CHECK(omp_get_max_threads() == n && omp_get_num_threads() == n);
#pragma omp parallel num_threads(n + 3)
    CHECK(omp_get_num_threads() == n + 3);
#pragma omp parallel if (0)
    CHECK(omp_get_num_threads() == 1);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    n = omp_get_max_threads();
    for (int i = 0; i < rounds; i++) {
        identity();
        barriers();
        loops();
        static_owners();
        reductions();
        singles();
        sections();
        exclusions();
        storage();
        nested();
        settings();
    }
    if (!wrong) printf("right\n");
    return wrong != 0;
}
