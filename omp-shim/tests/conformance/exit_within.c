/* A program may end within a region, by any of its threads; what is to be done at its end is done. */
#define _GNU_SOURCE
#include "suite.h"
#include <sys/wait.h>
static int *said;
static void at_exit(void) { __atomic_fetch_add(said, 1, __ATOMIC_RELAXED); }
#include <sys/mman.h>
int main(int argc, char **argv)
{
    said = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int who = 0; who < 4; who++)
        for (int how = 0; how < 3; how++) {
            *said = 0;
            pid_t child = fork();
            if (child == 0) {
                atexit(at_exit);
                at_quick_exit(at_exit);
#pragma omp parallel num_threads(4)
                {
#pragma omp barrier
                    if (omp_get_thread_num() == who) {
                        if (how == 0)
                            exit(20 + who);
                        if (how == 1)
                            quick_exit(20 + who);
                        _exit(20 + who);
                    }
#pragma omp barrier
                }
            }
            int status;
            CHECK(waitpid(child, &status, 0) == child);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 20 + who);
            CHECK(*said == (how < 2));
        }
    return suite_result();
}
