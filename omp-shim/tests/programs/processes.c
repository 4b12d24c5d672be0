/* Makes processes in the way and at the place that the arguments name. Their children call what the shim stands before,
 * then run /bin/true or end. Prints "right". Places: before any region, after one, in a thread beside one, within one. */
#define _GNU_SOURCE
#include <errno.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static const char *how;

/* What waits for no other thread of the process that it was copied from. */
static int alone(void)
{
    sigset_t set, old;
    sigemptyset(&set);
    errno = 0;
    return sigprocmask(SIG_BLOCK, &set, &old) || pthread_sigmask(SIG_SETMASK, &old, NULL) || sigaltstack(NULL, NULL) ||
           sched_yield() || close(-1) != -1 || errno != EBADF;
}

static int calls(void)
{
    return alone() || setuid(getuid());
}

static int in_clone(void *unused)
{
    (void)unused;
    _exit(calls());
}

static int exec_in_clone(void *arguments)
{
    _exit(alone() ? 1 : execv("/bin/true", arguments));
}

static int make(void)
{
    static char stacks[16][1 << 16] __attribute__((aligned(16)));
    char *arguments[] = {"true", NULL}, *stack = stacks[omp_get_thread_num()] + sizeof stacks[0];
    int status = -1;
    pid_t pid = -1;
    if (!strcmp(how, "fork") && !(pid = fork())) _exit(calls());
    if (!strcmp(how, "exec") && !(pid = fork())) _exit(calls() ? 1 : execv("/bin/true", arguments));
    if (!strcmp(how, "exit") && !(pid = fork())) exit(calls());
    if (!strcmp(how, "vfork") && !(pid = vfork())) _exit(execv("/bin/true", arguments));
    if (!strcmp(how, "spawn") && posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ)) return 1;
    if (!strcmp(how, "clone")) pid = clone(in_clone, stack, SIGCHLD, NULL);
    if (!strcmp(how, "clone_vm")) pid = clone(in_clone, stack, CLONE_VM | CLONE_VFORK | SIGCHLD, NULL);
    if (!strcmp(how, "clone_exec")) pid = clone(exec_in_clone, stack, SIGCHLD, arguments);
    if (!strcmp(how, "bare_exec") && !(pid = syscall(SYS_fork))) _exit(alone() ? 1 : execv("/bin/true", arguments));
    if (!strcmp(how, "bare") && !(pid = syscall(SYS_fork))) exit(calls());
    return waitpid(pid, &status, 0) != pid || status;
}

static int region(void)
{
    int sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 100; i++) sum += i;
    return sum != 4950;
}

static void *beside(void *stop)
{
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED))
        if (region()) _exit(9);
    return NULL;
}

int main(int argc, char **argv)
{
    int wrong = 0, stop = 0;
    pid_t self = getpid();
    const char *place = argv[argc - 1];
    how = argv[1];
    if (!strcmp(place, "before")) wrong += make();
    if (!strcmp(place, "beside")) {
        pthread_t other;
        if (pthread_create(&other, NULL, beside, &stop)) return 1;
        for (int i = 0; i < 20; i++) wrong += make();
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        pthread_join(other, NULL);
    }
    wrong += region();
    if (!strcmp(place, "after")) wrong += make();
    if (!strcmp(place, "within")) {
#pragma omp parallel reduction(+ : wrong)
        {
            /* A child that has this memory must not run other threads of the team. */
            wrong += getpid() != self;
#pragma omp critical
            wrong += make();
            wrong += getpid() != self;
#pragma omp barrier
            wrong += make() + (getpid() != self);
        }
    }
    wrong += region();
    puts(wrong ? "wrong" : "right");
    return 0;
}
