/* Children forked within a region: one that runs another program, others that go on by themselves, in
 * regions of their own, and past the end of the nested region within which they were made. */
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static int child(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int sum = 0;
        /* The other threads of the team are not there to be let run. */
        sched_yield();
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < 10; i++) sum += i;
        _exit(sum == 45 ? 7 : 1);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

static int ended_well(pid_t pid)
{
    int status = 0;
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

/* Regions, with barriers, of a child. */
static int works(void)
{
    int sum = 0, late = 0;
    for (int round = 1; round <= 20; round++) {
        int arrived = 0;
#pragma omp parallel reduction(+ : sum, late)
        {
#pragma omp atomic
            arrived++;
#pragma omp barrier
            late += arrived != omp_get_num_threads();
#pragma omp barrier
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 10; i++) sum += i;
        }
    }
    return sum == 900 && late == 0;
}

/* In one of the threads, while others wait for it at a barrier. */
static void alone(int *good)
{
#pragma omp barrier
#pragma omp single
    {
        usleep(2000);
        pid_t pid = fork();
        if (pid == 0) _exit(works() ? 7 : 1);
        int well = ended_well(pid);
#pragma omp atomic
        *good += well;
    }
}

/* In a region within the region; a child of the only thread of that goes on behind it. */
static int in_nested(void)
{
    int good = 1;
    pid_t parent = getpid(), pid = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp single
        {
            if (omp_get_num_threads() == 1) {
                pid = fork();
            } else {
                pid_t within = fork();
                if (within == 0) _exit(works() ? 7 : 1);
                good = ended_well(within);
            }
        }
    }
    if (getpid() != parent) _exit(works() ? 7 : 1);
    return good && (pid == 0 || ended_well(pid));
}

static int between(void)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        int sum = 0;
        for (int round = 0; round < 100; round++) {
#pragma omp parallel for reduction(+ : sum) schedule(dynamic)
            for (int i = 0; i < 10; i++) sum += i;
        }
        exit(sum == 4500 ? 7 : 1);
    }
    waitpid(pid, &status, 0);
    return WIFEXITED(status) && WEXITSTATUS(status) == 7;
}

int main(void)
{
    int good = 0, n = omp_get_max_threads();
#pragma omp parallel reduction(+ : good)
    {
        good += system("exit 3") == 3 << 8;
#pragma omp barrier
#pragma omp critical
        good += child();
#pragma omp barrier
        good += omp_get_num_threads() == n;
    }
    int singles = 0;
#pragma omp parallel
    alone(&singles);
    good += singles;
    for (int levels = 1; levels <= 2; levels++) {
        omp_set_max_active_levels(levels);
        int nested = 0;
#pragma omp parallel reduction(+ : nested)
        {
            nested += in_nested();
#pragma omp barrier
            nested += in_nested();
        }
        good += nested == 2 * n;
    }
    good += between();
#pragma omp parallel reduction(+ : good)
    good += omp_get_num_threads() == n;
    printf("%s\n", good == 4 * n + 4 ? "right" : "wrong");
    return 0;
}
