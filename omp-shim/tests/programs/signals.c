/* Signals that members of a team send to themselves, to each other, or have a timer send. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 64, ROUNDS = 50 };

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static __thread volatile int mine = -1;
static volatile int handled, by_member[MOST];
static pthread_t members[MOST];
static int mistakes;

static void handler(int signal)
{
    (void)signal;
    __atomic_fetch_add(&handled, 1, __ATOMIC_RELAXED);
    if (mine >= 0)
        __atomic_fetch_add(&by_member[mine], 1, __ATOMIC_RELAXED);
}

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s\n", what);
        __atomic_fetch_add(&mistakes, 1, __ATOMIC_RELAXED);
    }
}

/* Waits for so many signals in all, as one should wait in a team: others may run meanwhile. */
static void await(int count)
{
    double since = omp_get_wtime();
    while (handled < count && omp_get_wtime() - since < 10)
        sched_yield();
}

/* `pthread_kill`, as a library without constructs would call it: a program that imports it has no virtual teams. */
static int (*kill_thread)(pthread_t, int);

/* A signal to oneself is there when the call returns, and finds one's own variables. */
static void to_oneself(int by_pthread_kill)
{
#pragma omp parallel
    {
        int me = mine = omp_get_thread_num();
        for (int round = 1; round <= ROUNDS; round++) {
            if (by_pthread_kill)
                kill_thread(pthread_self(), SIGUSR1);
            else
                raise(SIGUSR1);
            check(by_member[me] == round, "the signal is not there at once");
#pragma omp barrier
        }
    }
    check(handled == ROUNDS * omp_get_max_threads(), "signals are lost");
}

/* To another member; whose variables the handler finds is not said. */
static void to_others(void)
{
    int n = omp_get_max_threads();
#pragma omp parallel
    {
        int me = mine = omp_get_thread_num();
        members[me] = pthread_self();
        for (int round = 1; round <= ROUNDS; round++) {
#pragma omp barrier
            check(kill_thread(members[(me + 1) % n], SIGUSR1) == 0, "pthread_kill");
#pragma omp single
            /* Signals that are still pending would become one. */
            await(round * n);
        }
        check(mine == me, "storage is another's");
    }
    check(handled == ROUNDS * n, "signals are lost");
}

/* Each member has its own mask, over barriers and in the next region. */
static void masks(void)
{
    for (int region = 0; region < 3; region++) {
#pragma omp parallel
        {
            int me = mine = omp_get_thread_num();
            sigset_t set, old;
            sigemptyset(&set);
            sigaddset(&set, SIGUSR1);
            sigprocmask(SIG_SETMASK, NULL, &old);
            check(sigismember(&old, SIGUSR1) == (region > 0 && me % 2), "the mask of the region before");
            if (me % 2)
                sigprocmask(SIG_BLOCK, &set, NULL);
#pragma omp barrier
            sigprocmask(SIG_SETMASK, NULL, &old);
            check(sigismember(&old, SIGUSR1) == me % 2, "the mask is another's");
            raise(SIGUSR1);
            check(by_member[me] == (me % 2 ? region : region + 1), "blocked, or not");
            sigprocmask(SIG_UNBLOCK, &set, NULL);
            check(by_member[me] == region + 1, "no longer blocked");
            sigprocmask(SIG_SETMASK, &old, NULL);
        }
    }
}

static void by_timer(void)
{
#pragma omp parallel
    {
        struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGUSR1};
        struct itimerspec soon = {.it_value.tv_nsec = 1000000};
        timer_t timer;
        int me = mine = omp_get_thread_num();
        event.sigev_notify_thread_id = syscall(SYS_gettid);
        check(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0, "timer_create");
#pragma omp barrier
#pragma omp critical
        {
            int before = handled;
            timer_settime(timer, 0, &soon, NULL);
            await(before + 1);
            check(handled == before + 1, "the timer's signal");
        }
#pragma omp barrier
        check(mine == me, "storage is another's");
        timer_delete(timer);
    }
}

static void cancelled(void *who)
{
    /* Members 1 and up are still there, all but the one that is cancelled. */
    printf("%s\n", mine == *(int *)who && mistakes == 0 ? "right" : "wrong");
    fflush(stdout);
    _exit(0);
}

/* The last member is cancelled by the first, and is the only one that notices. */
static void cancel(void)
{
    int last = omp_get_max_threads() - 1;
#pragma omp parallel
    {
        int me = mine = omp_get_thread_num();
        members[me] = pthread_self();
#pragma omp barrier
        if (me == 0)
            pthread_cancel(members[last]);
#pragma omp barrier
        if (me != last)
            pthread_testcancel();
#pragma omp barrier
        pthread_cleanup_push(cancelled, &last);
        pthread_testcancel();
        pthread_cleanup_pop(0);
#pragma omp barrier
    }
    check(0, "nobody was cancelled");
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "raise";
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    sigaction(SIGUSR1, &action, NULL);
    kill_thread = (int (*)(pthread_t, int))dlsym(RTLD_DEFAULT, "pthread_kill");
    if (!strcmp(what, "raise"))
        to_oneself(0);
    else if (!strcmp(what, "kill self"))
        to_oneself(1);
    else if (!strcmp(what, "kill others"))
        to_others();
    else if (!strcmp(what, "masks"))
        masks();
    else if (!strcmp(what, "timer"))
        by_timer();
    else if (!strcmp(what, "cancel"))
        cancel();
    else if (!strcmp(what, "abort")) {
#pragma omp parallel
        {
#pragma omp barrier
            if (omp_get_thread_num() == omp_get_num_threads() - 1)
                abort();
#pragma omp barrier
        }
    }
    printf("%s\n", mistakes ? "wrong" : "right");
    return 0;
}
