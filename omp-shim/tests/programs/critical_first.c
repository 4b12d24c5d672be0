/* Two threads whose first calls of the runtime are critical sections, the second's while the first's
 * still finds out how many CPUs the machine has, which takes long here. Prints "right" if never both
 * were inside. */
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

long __sysconf(int name);

/* In the program, hence also for the libraries: a slow machine. */
long sysconf(int name)
{
    if (name == _SC_NPROCESSORS_ONLN)
        usleep(300 * 1000);
    return __sysconf(name);
}

static volatile int inside;
static volatile int overlaps;

static void *enter(void *delay_us)
{
    usleep(*(useconds_t *)delay_us);
#pragma omp critical
    {
        if (inside)
            overlaps = 1;
        inside = 1;
        usleep(500 * 1000);
        if (!inside)
            overlaps = 1;
        inside = 0;
    }
    return NULL;
}

int main(void)
{
    useconds_t delays[2] = {0, 100 * 1000};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, enter, &delays[i]);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    puts(overlaps ? "both inside" : "right");
    return 0;
}
