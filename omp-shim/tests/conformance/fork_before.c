/* A child forked before the first region has teams of its own, and so has its parent after. */
#include "suite.h"
#include <sys/wait.h>
static long work(void)
{
    long sum = 0;
#pragma omp parallel for schedule(dynamic, 3) reduction(+ : sum)
    for (int i = 0; i < 300; i++)
        sum += i;
    return sum;
}
int main(void)
{
    pid_t children[2];
    for (int i = 0; i < 2; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            for (int k = 0; k < 20; k++)
                CHECK(work() == 44850);
            _exit(suite_result());
        }
    }
    while (more_rounds())
        CHECK(work() == 44850);
    for (int i = 0; i < 2; i++) {
        int status = -1;
        CHECK(waitpid(children[i], &status, 0) == children[i]);
        CHECK(status == 0);
    }
    return suite_result();
}
