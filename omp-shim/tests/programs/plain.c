/* A program without OpenMP: threads, a fork, an exit status, and what it can see of the shim. */
#include <dlfcn.h>
#include <fcntl.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *thread(void *data) { return data; }

int main(void)
{
    pthread_t t;
    void *back;
    if (pthread_create(&t, 0, thread, &t) || pthread_join(t, &back) || back != &t) return 1;
    pid_t child = fork();
    if (child == 0) _exit(7);
    int status;
    waitpid(child, &status, 0);
    int threads = 0, descriptors = 0, pages = 0;
    DIR *dir = opendir("/proc/self/task");
    while (readdir(dir)) threads++;
    closedir(dir);
    dir = opendir("/proc/self/fd");
    while (readdir(dir)) descriptors++;
    closedir(dir);
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) pages += strstr(line, "mapper-page") != 0;
    fclose(maps);
    printf("child %d threads %d descriptors %d pages %d\n", WEXITSTATUS(status), threads - 2,
           descriptors - 2, pages);
    return 42;
}
