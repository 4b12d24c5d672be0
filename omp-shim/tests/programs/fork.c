/* Runs regions in a parent and in its children, in the middle of each other. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static long work(int regions)
{
    long sum = 0;
    for (int r = 0; r < regions; r++) {
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
        for (int i = 0; i < 100; i++) sum += i;
    }
    return sum;
}

int main(int argc, char **argv)
{
    (void)argv;
    long sum = 0;
    /* libgomp can start no team in a child whose parent has one, unless it is of one thread; so the
     * first fork comes before any region, as programs that fork must do it. */
    pid_t first = fork();
    if (first == 0) {
        sum = work(30);
        fprintf(stdout, "child %ld\n", sum);
        fflush(stdout);
        _exit(sum == 30 * 4950 ? 0 : 1);
    }
    int status = 0;
    waitpid(first, &status, 0);
    if (status) return 1;
    sum = work(10);
    if (argc > 1) { /* after regions: with teams of one thread */
        char byte;
        pid_t second = fork();
        if (second == 0) {
            sum = work(20);
            printf("both\n");
            fflush(stdout);
            /* Until the test has looked. */
            if (read(0, &byte, 1) != 0) _exit(2);
            _exit(sum == 20 * 4950 ? 0 : 1);
        }
        waitpid(second, &status, 0);
        if (status) return 2;
    }
    sum += work(10);
    printf("parent %ld\n", sum);
    return 0;
}
