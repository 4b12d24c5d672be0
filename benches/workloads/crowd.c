/* A crowd of threads, to see what it costs to manage them.
 *
 *     crowd sleep THREADS PERIOD_US    every thread wakes once in a period and does a little
 *     crowd work THREADS ROUNDS       every thread does so much and ends
 *
 * The first prints `ready` when all threads are there and runs until it is ended. The second prints the CPU
 * time that all threads together took, in nanoseconds.
 */
#define _POSIX_C_SOURCE 200809L /* for nanosleep and clock_gettime */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long amount; /* microseconds of a period, or rounds of work */

/* `rounds` steps of a generator that the compiler cannot shorten. */
static uint64_t churn(uint64_t seed, long rounds)
{
    for (long i = 0; i < rounds; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

static volatile uint64_t sink;

static _Noreturn void *wakes(void *unused)
{
    (void)unused;
    struct timespec period = { amount / 1000000, amount % 1000000 * 1000 };
    for (;;) {
        sink = churn(sink, 1000);
        nanosleep(&period, NULL);
    }
}

static void *works(void *unused)
{
    (void)unused;
    sink = churn((uint64_t)amount, amount);
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 4 || (strcmp(argv[1], "sleep") != 0 && strcmp(argv[1], "work") != 0)) {
        fprintf(stderr, "usage: crowd sleep THREADS PERIOD_US | crowd work THREADS ROUNDS\n");
        return 2;
    }
    int working = strcmp(argv[1], "work") == 0;
    long threads = strtol(argv[2], NULL, 10);
    amount = strtol(argv[3], NULL, 10);
    if (threads < 1 || threads > 100000 || amount < 1) {
        fprintf(stderr, "crowd: give 1 to 100000 threads and a positive number\n");
        return 2;
    }
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    pthread_attr_t small;
    if (ids == NULL || pthread_attr_init(&small) != 0 || pthread_attr_setstacksize(&small, 64 * 1024) != 0)
        return 1;
    /* The first thread is one of them. */
    for (long i = 1; i < threads; i++) {
        if (pthread_create(&ids[i], &small, working ? works : wakes, NULL) != 0) {
            fprintf(stderr, "crowd: no more than %ld threads\n", i);
            return 1;
        }
    }
    if (!working) {
        puts("ready");
        fflush(stdout);
        wakes(NULL);
    }
    works(NULL);
    for (long i = 1; i < threads; i++)
        pthread_join(ids[i], NULL);
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    printf("%lld\n", (long long)used.tv_sec * 1000000000LL + used.tv_nsec);
    free(ids);
    return 0;
}
