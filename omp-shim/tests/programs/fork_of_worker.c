/* A thread that is not the first begins a region whose other thread forks. In the child the stack of the
 * thread that began the region is used anew; then the child takes a loop of the region. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *overwrite(void *unused)
{
    char block[1 << 20];
    memset(block, 0x5a, sizeof block);
    __asm__ volatile("" : : "r"(block) : "memory");
    return unused;
}

static int loop(void)
{
    int done = 0;
#pragma omp for schedule(dynamic, 3) nowait
    for (int i = 0; i < 10; i++) done++;
    return done;
}

static void in_child(void)
{
    pthread_t other;
    for (int i = 0; i < 3; i++)
        if (pthread_create(&other, 0, overwrite, 0) || pthread_join(other, 0)) _exit(2);
    _exit(loop() == 10 ? 0 : 1);
}

static void *begin(void *status)
{
    for (int round = 0; round < 3; round++)
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) {
            pid_t child = fork();
            if (!child) in_child();
            int ended;
            if (waitpid(child, &ended, 0) != child || ended) *(int *)status = ended ? ended : -1;
        }
    return status;
}

int main(void)
{
    int status = 0;
    pthread_t thread;
    if (pthread_create(&thread, 0, begin, &status) || pthread_join(thread, 0)) return 1;
    printf("%d\n", status);
    return 0;
}
