/* A parent of very many children, each of which runs a region and ends without a word. */
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

static int regions;

int main(void)
{
    for (int i = 0; i < 600; i++) {
        pid_t child = fork();
        if (child == 0) {
#pragma omp parallel num_threads(1)
            __atomic_fetch_add(&regions, 1, __ATOMIC_RELAXED);
            _exit(0);
        }
        int status;
        if (waitpid(child, &status, 0) != child || status) return 1;
    }
    printf("fine\n");
    return 0;
}
