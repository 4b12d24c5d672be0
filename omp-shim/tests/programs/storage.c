/* Answers each line of input with "right" or "wrong", after a region that does what the line names. Compiled with
 * one of SEES_* it also has what tells threads apart by their thread-local storage. */
#include <errno.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SEES_PTHREAD_SELF
#include <pthread.h>
#endif

static int wrong;
#define CHECK(condition) \
    do { \
        if (!(condition)) { \
            __atomic_store_n(&wrong, 1, __ATOMIC_RELAXED); \
            fprintf(stderr, "line %d: %s (thread %d)\n", __LINE__, #condition, omp_get_thread_num()); \
        } \
    } while (0)

#ifdef SEES_THREAD_LOCAL
static _Thread_local int mine;
#endif
#ifdef SEES_THREADPRIVATE
static int mine;
#pragma omp threadprivate(mine)
#endif

/* What a thread has of its own, noted and looked at again. */
static void see(int again)
{
    int me = omp_get_thread_num();
    (void)again, (void)me;
#if defined SEES_THREAD_LOCAL || defined SEES_THREADPRIVATE
    if (again) CHECK(mine == 100 + me);
    mine = 100 + me;
#endif
#ifdef SEES_PTHREAD_SELF
    static pthread_t selves[64];
    if (again) CHECK(pthread_equal(selves[me], pthread_self()));
    selves[me] = pthread_self();
#endif
}

static void barriers(void)
{
    static int phase[64];
    int sum = 0, critical = 0, iterations = 0;
#pragma omp parallel reduction(+ : sum)
    {
        int me = omp_get_thread_num(), n = omp_get_num_threads(), own[8];
        see(0);
        for (int round = 1; round <= 20; round++) {
            phase[me] = round;
            own[round % 8] = me + round;
#pragma omp barrier
            for (int i = 0; i < n; i++) CHECK(phase[i] == round);
            see(1);
#pragma omp critical
            critical++;
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 10; i++) {
#pragma omp atomic
                iterations++;
            }
            CHECK(own[round % 8] == me + round && omp_get_thread_num() == me);
        }
        sum += me;
    }
    int n = omp_get_max_threads();
    CHECK(sum == n * (n - 1) / 2 && critical == 20 * n && iterations == 200);
}

/* A region without a barrier in it, in which some threads hold others up. */
static void brief(void)
{
    int together = 0, n = omp_get_max_threads();
    for (int round = 0; round < 20; round++) {
#pragma omp parallel reduction(+ : together)
        {
            if (round % 4 == 1) {
#pragma omp critical
                see(0);
            }
            if (round % 4 == 2 && omp_get_thread_num() % 3 == 1) {
#pragma omp critical
                omp_get_wtime();
            }
            together += omp_get_thread_num();
        }
    }
    CHECK(together == 20 * n * (n - 1) / 2);
}

/* errno, as those functions see it that print it. */
static void messages(void)
{
#pragma omp parallel
    {
        char text[100];
        int odd = omp_get_thread_num() % 2;
        const char *expected = odd ? "Is a directory" : "No such file or directory";
        for (int round = 0; round < 5; round++) {
            CHECK(!fopen(odd ? "/" : "/nowhere/at/all", "w"));
#pragma omp barrier
            snprintf(text, sizeof text, "%m");
            CHECK(!strcmp(text, expected));
        }
    }
    /* It is kept from region to region. */
#pragma omp parallel
    {
        char text[100];
        snprintf(text, sizeof text, "%m");
        const char *expected = omp_get_thread_num() % 2 ? "Is a directory" : "No such file or directory";
        CHECK(!strcmp(text, expected));
    }
}

static volatile int flags[64];

/* Each thread waits for the one after it. */
static void wait_for_next(int round)
{
    int me = omp_get_thread_num();
    if (me < omp_get_num_threads() - 1)
        while (flags[me + 1] != round) __asm__ volatile("pause" ::: "memory");
    flags[me] = round;
}

static void waiting(void)
{
    static int round;
    round++;
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        wait_for_next(round);
#pragma omp barrier
        CHECK(flags[0] == round && me == omp_get_thread_num());
    }
}

/* errno that was set before others waited, as each thread sees it when it is helped out. */
static void messages_while_waiting(void)
{
    static int round = 3000;
    round++;
#pragma omp parallel
    {
        char text[100];
        int odd = omp_get_thread_num() % 2;
        CHECK(!fopen(odd ? "/" : "/nowhere/at/all", "w"));
#pragma omp barrier
        wait_for_next(round);
        snprintf(text, sizeof text, "%m");
        CHECK(!strcmp(text, odd ? "Is a directory" : "No such file or directory"));
    }
}

/* The first to ask for its place does so when the others have set it and come to a stop. */
static void behind_a_barrier(void)
{
#pragma omp parallel
    {
        int odd = omp_get_thread_num() % 2;
        CHECK(!fopen(odd ? "/" : "/nowhere/at/all", "w"));
#pragma omp barrier
        CHECK(errno == (odd ? EISDIR : ENOENT));
    }
}

/* The place of errno, kept for the whole of a region. */
static void place(int waits)
{
    static int round = 1000;
    round++;
#pragma omp parallel
    {
        int me = omp_get_thread_num(), *place = &errno;
        __asm__ volatile("" : "+r"(place));
        *place = 200 + me;
        if (waits) wait_for_next(round);
#pragma omp barrier
        CHECK(*place == 200 + me && place == &errno);
        CHECK(!fopen("/nowhere/at/all", "r") && *place == ENOENT);
        *place = 300 + me;
#pragma omp barrier
        CHECK(*place == 300 + me && place == &errno);
    }
}

/* Some threads ask for it late, when others have come to stops. */
static void place_later(void)
{
    static int round = 2000;
    round++;
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        char text[100];
        CHECK(!fopen("/nowhere/at/all", "r"));
        wait_for_next(round);
        if (me % 2) {
            int *place = &errno;
            __asm__ volatile("" : "+r"(place));
            CHECK(*place == ENOENT);
            *place = 400 + me;
#pragma omp critical
            CHECK(*place == 400 + me);
#pragma omp barrier
            CHECK(*place == 400 + me);
        } else {
#pragma omp barrier
            snprintf(text, sizeof text, "%m");
            CHECK(!strcmp(text, "No such file or directory"));
        }
    }
}

/* Each thread's rounding, which no function of the C library's sets here. */
static void modes(void)
{
    static int rounds;
    int later = rounds++ > 0;
#pragma omp parallel
    {
        unsigned own = 0x1f80 | (omp_get_thread_num() % 4) << 13, now = __builtin_ia32_stmxcsr();
        if (later) CHECK((now & 0x6000) == (own & 0x6000));
        __builtin_ia32_ldmxcsr(own);
#pragma omp barrier
        CHECK((__builtin_ia32_stmxcsr() & 0x6000) == (own & 0x6000));
    }
}

int main(void)
{
    char line[100];
    while (fgets(line, sizeof line, stdin)) {
        /* As programs do that read their arguments. */
        errno = 0;
        char *end;
        strtol(line, &end, 10);
        if (errno) return 1;
        line[strcspn(line, "\n")] = 0;
        if (!strcmp(line, "barriers")) barriers();
        else if (!strcmp(line, "brief")) brief();
        else if (!strcmp(line, "messages")) messages();
        else if (!strcmp(line, "waiting")) waiting();
        else if (!strcmp(line, "messages while waiting")) messages_while_waiting();
        else if (!strcmp(line, "behind a barrier")) behind_a_barrier();
        else if (!strcmp(line, "place")) place(0);
        else if (!strcmp(line, "place while waiting")) place(1);
        else if (!strcmp(line, "place later")) place_later();
        else if (!strcmp(line, "modes")) modes();
        else return 2;
        puts(wrong ? "wrong" : "right");
        fflush(stdout);
    }
    return wrong;
}
