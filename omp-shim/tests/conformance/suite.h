/* What the programs of this suite share: checks that are counted, rounds, and environment. */
#ifndef SUITE_H
#define SUITE_H

#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int suite_failures;

/* Says and counts a check that failed; may be called by any thread. */
static inline void suite_failed(const char *file, int line, const char *what)
{
    int before = __atomic_fetch_add(&suite_failures, 1, __ATOMIC_RELAXED);
    if (before < 5)
        fprintf(stderr, "%s:%d: %s\n", file, line, what);
}

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition))                                                                          \
            suite_failed(__FILE__, __LINE__, #condition);                                          \
    } while (0)

static inline int suite_rounds(int least)
{
    static int rounds;
    static double start;
    if (rounds == 0)
        start = omp_get_wtime();
    return rounds++ < least || omp_get_wtime() - start < 0.04;
}

/* Goes on for at least five rounds and 40 ms, so that the allocation changes many times. */
static inline int more_rounds(void)
{
    return suite_rounds(5);
}

/* The same for programs whose threads spin for one another: when threads outnumber CPUs, every such
 * wait may cost a time slice. */
static inline int a_few_rounds(void)
{
    return suite_rounds(2);
}

/* The exit status. */
static inline int suite_result(void)
{
    return suite_failures != 0;
}

/* Runtimes read their environment once; so start anew with the variable set. */
static inline void suite_require_environment(const char *name, const char *value, char **argv)
{
    const char *present = getenv(name);
    if (present && strcmp(present, value) == 0)
        return;
    setenv(name, value, 1);
    execv("/proc/self/exe", argv);
    perror("execv");
    exit(2);
}

#endif
