/* POSIX threads for the programs that have a pool of their own, and what they say to mapper.
 *
 * Compiled with WORKLOAD_MAPPER, a program is linked with libmapper; without, the same calls do
 * nothing, as they do when it is not started by mapper-launch.
 */
#ifndef THREADS_H
#define THREADS_H

#include "workload.h"

#include <pthread.h>

#ifdef WORKLOAD_MAPPER
#include <mapper.h>
#else
static inline void mapper_work_done(double amount)
{
    (void)amount;
}
static inline void mapper_latency(double seconds)
{
    (void)seconds;
}
#endif

/* Work that takes about 1 ns a round and that the compiler cannot shorten. */
static inline uint64_t churn(uint64_t seed, long rounds)
{
    for (long i = 0; i < rounds; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

/* What `churn` comes to, in few steps: a round is x -> a x + c, so n of them are one such map. */
static inline uint64_t churned(uint64_t seed, long rounds)
{
    uint64_t a = 6364136223846793005u, c = 1442695040888963407u, total_a = 1, total_c = 0;
    for (uint64_t n = (uint64_t)rounds; n > 0; n >>= 1) {
        if (n & 1) {
            total_a *= a;
            total_c = total_c * a + c;
        }
        c *= a + 1;
        a *= a;
    }
    return seed * total_a + total_c;
}

/* A thread of a pool: what all of them share, and its number. */
struct worker {
    pthread_t thread;
    int number;
    void *shared;
};

static struct worker *workers_start(const char *name, int count, void *(*work)(void *), void *shared)
{
    struct worker *workers = calloc((size_t)count, sizeof *workers);
    for (int i = 0; i < count; i++) {
        if (workers != NULL) {
            workers[i].number = i;
            workers[i].shared = shared;
        }
        if (workers == NULL || pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) {
            fprintf(stderr, "%s: no more threads than %d; choose fewer by --threads\n", name, i);
            exit(2);
        }
    }
    return workers;
}

static void workers_join(struct worker *workers, int count)
{
    for (int i = 0; i < count; i++)
        pthread_join(workers[i].thread, NULL);
    free(workers);
}

#endif
