/* Each thread of a team sets what the kernel keeps for it, in a first region, and finds it there again: after barriers of that
 * region, and in later ones. The argument says what: masks, priorities, policies, slack or names; or handlers, which ask for such
 * things while the threads do. */
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

static const char *what;
static int mistakes;

static void check(int good, const char *how)
{
    if (!good) {
        fprintf(stderr, "%s: %d of %d %s\n", what, omp_get_thread_num(), omp_get_num_threads(), how);
#pragma omp atomic
        mistakes++;
    }
}

/* The CPU of a thread: one of the two first that there are. */
static int cpu_of(int thread, const cpu_set_t *all)
{
    int wanted = thread % 2, last = 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, all)) {
            last = cpu;
            if (wanted-- == 0) break;
        }
    return last;
}

static void set(int me, const cpu_set_t *all)
{
    struct sched_param none = {0};
    if (!strcmp(what, "masks")) {
        cpu_set_t mine;
        CPU_ZERO(&mine);
        CPU_SET(cpu_of(me, all), &mine);
        if (me % 3) check(sched_setaffinity(0, sizeof mine, &mine) == 0, "set");
        else check(pthread_setaffinity_np(pthread_self(), sizeof mine, &mine) == 0, "set by handle");
    } else if (!strcmp(what, "priorities")) {
        errno = 0;
        if (me % 2) check(nice(1 + me) != -1 || errno == 0, "nice");
        else if (me % 4) check(setpriority(PRIO_PROCESS, gettid(), 1 + me) == 0, "set by number");
        else {
            /* Within a region of its own. */
#pragma omp parallel num_threads(1)
            check(setpriority(PRIO_PROCESS, 0, 1 + me) == 0, "set");
        }
    } else if (!strcmp(what, "policies")) {
        int policy = me % 2 ? SCHED_BATCH : SCHED_OTHER;
        if (me % 3) check(sched_setscheduler(0, policy, &none) == 0, "set");
        else check(pthread_setschedparam(pthread_self(), policy, &none) == 0, "set by handle");
        check(sched_setparam(0, &none) == 0, "set parameters");
        check(pthread_setschedprio(pthread_self(), 0) == 0, "set priority");
    } else if (!strcmp(what, "slack")) {
        check(prctl(PR_SET_TIMERSLACK, 1000L * (me + 1), 0, 0, 0) == 0, "set");
    } else {
        char name[16];
        snprintf(name, sizeof name, "thread %d", me);
        check(prctl(PR_SET_NAME, name, 0, 0, 0) == 0, "set");
    }
}

static void look(int me, const cpu_set_t *all)
{
    if (!strcmp(what, "masks")) {
        cpu_set_t mine;
        check(sched_getaffinity(0, sizeof mine, &mine) == 0, "get");
        check(CPU_COUNT(&mine) == 1 && CPU_ISSET(cpu_of(me, all), &mine), "mask");
    } else if (!strcmp(what, "priorities")) {
        check(getpriority(PRIO_PROCESS, 0) == 1 + me, "priority");
    } else if (!strcmp(what, "policies")) {
        struct sched_param found = {77};
        check(sched_getscheduler(0) == (me % 2 ? SCHED_BATCH : SCHED_OTHER), "policy");
        check(sched_getparam(0, &found) == 0 && found.sched_priority == 0, "parameters");
    } else if (!strcmp(what, "slack")) {
        check(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 1000 * (me + 1), "slack");
    } else {
        char name[16], expected[16];
        snprintf(expected, sizeof expected, "thread %d", me);
        check(prctl(PR_GET_NAME, name, 0, 0, 0) == 0 && !strcmp(name, expected), "name");
    }
}

static volatile int handled;

static void ask(int number)
{
    char name[16];
    (void)number;
    if (prctl(PR_GET_NAME, name, 0, 0, 0) || getpriority(PRIO_PROCESS, 0) > 19) mistakes++;
    handled++;
}

/* Threads and a handler ask at the same time. */
static void interrupted(void)
{
    struct itimerval often = {{0, 200}, {0, 200}};
    signal(SIGPROF, ask);
    setitimer(ITIMER_PROF, &often, 0);
    double until = omp_get_wtime() + 0.3;
    while (omp_get_wtime() < until) {
#pragma omp parallel
        for (int round = 0; round < 100; round++) {
            char name[16];
            check(prctl(PR_GET_NAME, name, 0, 0, 0) == 0, "get");
            check(getpriority(PRIO_PROCESS, 0) == 0, "priority");
            if (round % 20 == 0) {
#pragma omp barrier
            }
        }
    }
    memset(&often, 0, sizeof often);
    setitimer(ITIMER_PROF, &often, 0);
    check(handled > 10, "was not interrupted");
}

/* Longer than members of a virtual team wait for one of them. */
static void compute(void)
{
    double until = omp_get_wtime() + 0.04;
    while (omp_get_wtime() < until) {
    }
}

int main(int count, char **arguments)
{
    cpu_set_t all;
    what = count > 1 ? arguments[1] : "masks";
    if (!strcmp(what, "handlers")) {
        interrupted();
        puts(mistakes ? "wrong" : "right");
        return mistakes != 0;
    }
    if (getpriority(PRIO_PROCESS, 0) > 0 || sched_getaffinity(0, sizeof all, &all)) return 2;
    /* Every second thread sets it at once, the others after a barrier: also the first of each block, and those after it. */
#pragma omp parallel
    {
        int me = omp_get_thread_num();
        if (me % 2) set(me, &all);
#pragma omp barrier
        if (me % 2 == 0) set(me, &all);
        for (int round = 0; round < 3; round++) {
#pragma omp barrier
            look(me, &all);
        }
#pragma omp barrier
        if (strcmp(what, "slack") && me == omp_get_num_threads() - 1) compute();
        look(me, &all);
    }
    for (int region = 0; region < 20; region++) {
#pragma omp parallel
        {
            look(omp_get_thread_num(), &all);
#pragma omp barrier
            look(omp_get_thread_num(), &all);
        }
    }
    puts(mistakes ? "wrong" : "right");
    return mistakes != 0;
}
