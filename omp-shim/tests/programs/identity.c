/* Changes the user and the groups that the process runs as, while a team runs: in a member of it, or in a thread
 * beside it. The C library does so in every thread, by a signal to each. Where the program may (as root) it becomes
 * another user, else it asks for what it is. Afterwards all threads must be alike, as the kernel sees them. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <grp.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

enum { NOBODY = 65534, STEPS = 10 };

static int is_root;
static int mistakes;

static void check(int good, const char *what)
{
    if (!good) {
        fprintf(stderr, "%s\n", what);
#pragma omp atomic
        mistakes++;
    }
}

/* One call of each kind, from the ones that need most to the one after which nothing is left to ask for. */
static void change(int step)
{
    uid_t user = is_root ? NOBODY : getuid();
    gid_t group = is_root ? NOBODY : getgid();
    gid_t groups[2] = {group, group};
    switch (step) {
    case 0: check((initgroups("nobody", group) == 0) == is_root, "initgroups"); break;
    case 1: check((setgroups(2, groups) == 0) == is_root, "setgroups"); break;
    case 2: check(setegid(group) == 0, "setegid"); break;
    case 3: check(setregid(-1, group) == 0, "setregid"); break;
    case 4: check(setresgid(-1, group, -1) == 0, "setresgid"); break;
    case 5: check(setgid(group) == 0, "setgid"); break;
    case 6: check(seteuid(getuid()) == 0, "seteuid"); break;
    case 7: check(setreuid(-1, getuid()) == 0, "setreuid"); break;
    case 8: check(setresuid(user, user, user) == 0, "setresuid"); break;
    case 9: check(setuid(user) == 0, "setuid"); break;
    }
}

/* What may not be done is said in the caller's errno. */
static void ask_too_much(void)
{
    errno = 77;
    check(setuid(0) == -1 && errno == EPERM, "setuid(0) by nobody");
}

/* The lines of a thread's status that say whom it runs as. */
static void identity(const char *task, char *text, size_t size)
{
    char path[300], line[4096];
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task);
    FILE *file = fopen(path, "r");
    text[0] = '\0';
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, "Uid:", 4) || !strncmp(line, "Gid:", 4) || !strncmp(line, "Groups:", 7))
            strncat(text, line, size - strlen(text) - 1);
    }
    if (file)
        fclose(file);
}

/* How many threads there are; none if one of them is somebody else than the first. */
static int count_alike(void)
{
    char first[9000], other[9000], task[20];
    int count = 0, alike = 1;
    snprintf(task, sizeof task, "%d", getpid());
    identity(task, first, sizeof first);
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *entry; tasks && (entry = readdir(tasks));) {
        if (entry->d_name[0] == '.')
            continue;
        identity(entry->d_name, other, sizeof other);
        /* A thread that has ended meanwhile has none. */
        if (other[0]) {
            count++;
            alike &= strcmp(first, other) == 0;
        }
    }
    if (tasks)
        closedir(tasks);
    return alike ? count : 0;
}

/* Threads that are just ending are left as they are, and seen for a moment longer. */
static void check_alike(void)
{
    int count = 0;
    for (int tries = 0; tries < 2000 && count == 0; tries++) {
        count = count_alike();
        if (count == 0)
            usleep(1000);
    }
    check(count != 0, "a thread is somebody else");
    check(count == 0 || count >= omp_get_max_threads(), "threads are missing");
}

static void in_member(int who)
{
    for (int step = 0; step < STEPS; step++) {
#pragma omp parallel
        {
            if (omp_get_thread_num() == who % omp_get_num_threads())
                change(step);
#pragma omp barrier
            if (step == STEPS - 1 && omp_get_thread_num() == who % omp_get_num_threads() && getuid() != 0)
                ask_too_much();
#pragma omp barrier
        }
        check_alike();
    }
}

static volatile int changed, begun;

static void *change_all(void *unused)
{
    while (!__atomic_load_n(&begun, __ATOMIC_ACQUIRE))
        usleep(100);
    for (int step = 0; step < STEPS; step++) {
        change(step);
        usleep(2000);
    }
    if (getuid() != 0)
        ask_too_much();
    __atomic_store_n(&changed, 1, __ATOMIC_RELEASE);
    return unused;
}

static void beside(void)
{
    pthread_t thread;
    int done = 0;
    pthread_create(&thread, NULL, change_all, NULL);
    while (!done) {
#pragma omp parallel shared(done)
        {
            __atomic_store_n(&begun, 1, __ATOMIC_RELEASE);
            for (int round = 0; round < 1000; round++) {
#pragma omp barrier
            }
#pragma omp single
            done = __atomic_load_n(&changed, __ATOMIC_ACQUIRE);
        }
    }
    pthread_join(thread, NULL);
    check_alike();
}

int main(int argc, char **argv)
{
    const char *who = argc > 1 ? argv[1] : "beside";
    is_root = getuid() == 0;
    if (!strcmp(who, "beside"))
        beside();
    else
        in_member(atoi(who));
    printf("%s\n", mistakes ? "wrong" : "right");
    return 0;
}
