/* Other programs are started from within `single` and `master`, in every way there is. */
#define _GNU_SOURCE
#include "suite.h"
#include <spawn.h>
#include <sys/wait.h>
extern char **environ;
int main(void)
{
    for (int round = 0; round < 3; round++) {
        long sum = 0;
#pragma omp parallel num_threads(4) reduction(+ : sum)
        {
#pragma omp single
            {
                pid_t child = fork();
                if (child == 0) {
                    execl("/bin/sh", "sh", "-c", "exit 7", (char *)NULL);
                    _exit(1);
                }
                int status;
                CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
                CHECK(WEXITSTATUS(system("exit 3")) == 3);
            }
#pragma omp master
            {
                pid_t child;
                char *arguments[] = {"sh", "-c", "exit 4", NULL};
                int status;
                CHECK(posix_spawn(&child, "/bin/sh", NULL, NULL, arguments, environ) == 0);
                CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 4);
                child = vfork();
                if (child == 0)
                    _exit(9);
                CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 9);
            }
#pragma omp sections
            {
#pragma omp section
                {
                    char line[10] = "";
                    FILE *pipe = popen("echo hello", "r");
                    CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "hello\n"));
                    if (pipe)
                        pclose(pipe);
                }
#pragma omp section
                sum += 1;
            }
            sum += 10;
        }
        CHECK(sum == 41);
    }
    return suite_result();
}
