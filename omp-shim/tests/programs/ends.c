/* The first thread ends by `pthread_exit`, before or after others that run regions, or runs them itself. The argument
 * names in turn who runs one: m the first thread, t another one at the same time, a another one when the first has
 * ended. The process ends with the last of its threads and says so. */
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void region(void)
{
    int sum = 0;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum)
    for (int i = 0; i < 100; i++) sum += i;
    if (sum != 4950) _exit(3);
}

static void *thread(void *is_late)
{
    if (is_late) usleep(50000);
    for (int i = 0; i < 20; i++) region();
    return NULL;
}

static void at_end(void)
{
    puts("ended");
}

int main(int argc, char **argv)
{
    atexit(at_end);
    for (const char *who = argv[argc - 1]; *who; who++) {
        pthread_t other;
        if (*who == 'm') region();
        else if (pthread_create(&other, NULL, thread, *who == 'a' ? &other : NULL)) return 2;
        else if (*who == 't' && who[1] == 'm') pthread_join(other, NULL);
    }
    pthread_exit(NULL);
}
