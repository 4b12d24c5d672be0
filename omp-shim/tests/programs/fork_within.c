/* Children forked within a region: one that runs another program, one that goes on by itself. */
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
    good += between();
#pragma omp parallel reduction(+ : good)
    good += omp_get_num_threads() == n;
    printf("%s\n", good == 4 * n + 1 ? "right" : "wrong");
    return 0;
}
