/* Forks, over and over, while other threads load and unload the libraries that are named and walk through all that are
 * loaded. Arguments: how many forks, what a child does, libraries. Prints how many children hung and failed. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static atomic_int stop;
/* Which of its steps the child is at, for the message. */
static volatile int *step;

static void *load(void *path)
{
    while (!atomic_load(&stop)) {
        void *library = dlopen(path, RTLD_NOW);
        if (!library) abort();
        dlclose(library);
    }
    return NULL;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    (void)info, (void)size, (void)data;
    return 0;
}

static void *walk(void *unused)
{
    while (!atomic_load(&stop)) dl_iterate_phdr(look, NULL);
    return unused;
}

/* What may be called in the child of a process with threads, and what the shim stands before. */
static int calls(void)
{
    sigset_t set, old;
    stack_t stack;
    char name[16];
    *step = 1;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    if (sigprocmask(SIG_BLOCK, &set, &old) || sigprocmask(SIG_SETMASK, &old, NULL)) return 1;
    *step = 2;
    if (pthread_sigmask(SIG_BLOCK, &set, &old) || pthread_sigmask(SIG_SETMASK, &old, NULL)) return 2;
    *step = 3;
    if (sigaltstack(NULL, &stack)) return 3;
    *step = 4;
    sched_yield();
    *step = 5;
    errno = 0;
    if (close(-1) != -1 || errno != EBADF) return 4;
    *step = 6;
    if (setuid(getuid()) || setgid(getgid()) || setreuid(-1, geteuid())) return 5;
    *step = 7;
    if (pthread_getname_np(pthread_self(), name, sizeof name) || pthread_setname_np(pthread_self(), name)) return 6;
    return 0;
}

static int region(void)
{
    int sum = 0;
    *step = 8;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 10; i++) sum += i;
    return sum == 45 ? 0 : 7;
}

static int child(const char *what)
{
    *step = 0;
    if (!strcmp(what, "calls")) return calls();
    if (!strcmp(what, "region")) return region();
    if (!strcmp(what, "both")) return calls() ? 1 : region();
    if (!strcmp(what, "exec")) {
        execl("/bin/true", "true", (char *)NULL);
        return 8;
    }
    if (!strcmp(what, "exit")) exit(0);
    if (!strcmp(what, "find")) {
        /* `dlopen` would end the child, with or without mapper: the linker is in the middle of a load. */
        *step = 9;
        return dlsym(RTLD_DEFAULT, "malloc") ? 0 : 9;
    }
    return 10;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

int main(int argc, char **argv)
{
    pthread_t threads[16];
    int count = 0, hung = 0, failed = 0, forks = atoi(argv[1]);
    double patience = getenv("PATIENCE") ? atof(getenv("PATIENCE")) : 20;
    step = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int i = 3; i < argc && count < 14; i++)
        if (pthread_create(&threads[count++], NULL, load, argv[i])) return 1;
    if (pthread_create(&threads[count++], NULL, walk, NULL)) return 1;
    for (int i = 0; i < forks; i++) {
        int status = 0;
        pid_t pid = fork();
        if (pid == 0) _exit(child(argv[2]));
        double until = now() + patience;
        pid_t ended;
        while (!(ended = waitpid(pid, &status, WNOHANG)) && now() < until) usleep(50);
        if (!ended) {
            fprintf(stderr, "hung at step %d\n", *step);
            hung++;
            kill(pid, SIGKILL);
            waitpid(pid, &status, 0);
        } else if (status) {
            fprintf(stderr, "ended with %x at step %d\n", status, *step);
            failed++;
        }
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
    printf("%d hung %d failed\n", hung, failed);
    return 0;
}
