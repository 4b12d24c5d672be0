/* What the programs of `cargo xtask vm live` share: work of a known length, and a file in which who runs them reads how far
 * they have come. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* Latencies are counted in classes, four for each doubling, the first up to 2^(1/4) microseconds. */
enum { LATENCY_CLASSES = 128 };

struct progress {
    _Atomic uint64_t done; /* iterations, items or requests */
    _Atomic uint64_t at_ns; /* when the last of them was, by the monotonic clock */
    _Atomic uint64_t latency[LATENCY_CLASSES];
};

/* Steps that the compiler cannot shorten. */
static inline uint64_t churn(uint64_t seed, long steps)
{
    for (long i = 0; i < steps; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

static inline double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void one_more(struct progress *progress)
{
    progress->at_ns = (uint64_t)(1e9 * now_s());
    progress->done++;
}

/* The value after an option, a number of at least 0. */
static inline double option(int argc, char **argv, const char *name, double preset)
{
    for (int i = 1; i + 1 < argc; i++) {
        char *end;
        if (strcmp(argv[i], name) != 0)
            continue;
        double value = strtod(argv[i + 1], &end);
        if (end != argv[i + 1] && *end == '\0' && value >= 0)
            return value;
        fprintf(stderr, "%s: %s \"%s\" is no number of at least 0\n", argv[0], name, argv[i + 1]);
        exit(2);
    }
    return preset;
}

/* The last argument names the file. */
static inline struct progress *progress_of(int argc, char **argv)
{
    int file = open(argv[argc - 1], O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, sizeof(struct progress)) != 0) {
        perror(argv[argc - 1]);
        exit(2);
    }
    void *page = mmap(NULL, sizeof(struct progress), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
    return page;
}

#endif
