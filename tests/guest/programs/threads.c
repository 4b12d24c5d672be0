/* Creates and joins threads, four at a time, for the number of seconds given, and prints how many. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static void *nothing(void *argument) { return argument; }

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1;
    struct timespec start, now;
    long created = 0;
    clock_gettime(CLOCK_MONOTONIC, &start);
    do {
        pthread_t threads[4];
        for (int i = 0; i < 4; i++)
            if (pthread_create(&threads[i], NULL, nothing, NULL) != 0)
                return 1;
        for (int i = 0; i < 4; i++)
            pthread_join(threads[i], NULL);
        created += 4;
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) * 1e-9
             < seconds);
    printf("%ld\n", created);
    return 0;
}
