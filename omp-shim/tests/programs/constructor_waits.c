/* Loads a library (this file with LIBRARY) whose constructor waits for a thread that is the first of the process to
 * use `errno`, while the linker still holds its lock for loading. */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>

#ifdef LIBRARY
static void *uses_errno(void *nothing)
{
    (void)nothing;
    errno = 0;
    return NULL;
}

__attribute__((constructor)) static void begin(void)
{
    pthread_t thread;
    if (!pthread_create(&thread, NULL, uses_errno, NULL)) pthread_join(thread, NULL);
}
#else
int main(int argc, char **argv)
{
    if (argc < 2 || !dlopen(argv[1], RTLD_NOW)) return 1;
    puts("loaded");
    return 0;
}
#endif
