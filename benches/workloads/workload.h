/* What the measured programs share: arguments, clock and the closing line of JSON.
 *
 * Every program takes `--size N` (how big the problem is) and `--steps N` (how often it is
 * worked on; the running time grows linearly with it), checks its own result and ends with one
 * line of JSON on standard output. Exit status: 0 right, 1 wrong (with a line `WRONG ...` on
 * standard error), 2 bad arguments.
 *
 * The programs that use OpenMP conform to it with a dynamic team size: nothing is stored per
 * thread from one parallel region to the next, so a region may run with fewer threads than the
 * one before. The others have POSIX threads of their own (threads.h), by default as many as the
 * machine has CPUs, whatever part of it they are confined to; `--threads N` says otherwise.
 */
#ifndef WORKLOAD_H
#define WORKLOAD_H

#define _POSIX_C_SOURCE 200809L /* for clock_gettime */

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

struct workload {
    const char *name;
    long size;
    long steps;
    int threads;
    double start_s;
    int wrong;
    double p99_ms; /* of a program that answers requests; 0 for others */
};

/* Smallest and largest value that a program accepts for one argument, and its default. */
struct workload_range {
    long least;
    long most;
    long preset;
};

enum {
#ifdef _OPENMP
    WORKLOAD_HAS_OWN_THREADS = 0,
#else
    WORKLOAD_HAS_OWN_THREADS = 1,
#endif
    WORKLOAD_MOST_THREADS = 4096,
};

static double workload_now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void workload_usage(FILE *to, const char *name, const char *about,
                           struct workload_range size, struct workload_range steps)
{
    fprintf(to,
            "%s: %s\n"
            "usage: %s [--size N] [--steps N]%s\n"
            "  --size N    %ld to %ld, default %ld\n"
            "  --steps N   %ld to %ld, default %ld\n",
            name, about, name, WORKLOAD_HAS_OWN_THREADS ? " [--threads N]" : "", size.least,
            size.most, size.preset, steps.least, steps.most, steps.preset);
    if (WORKLOAD_HAS_OWN_THREADS)
        fprintf(to, "  --threads N %d to %d, default the CPUs of the machine\n", 1,
                WORKLOAD_MOST_THREADS);
}

/* As many threads as the program has unless it is told otherwise. */
static int workload_preset_threads(void)
{
#ifdef _OPENMP
    return omp_get_max_threads();
#else
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    return cpus < 1 ? 1 : cpus > WORKLOAD_MOST_THREADS ? WORKLOAD_MOST_THREADS : (int)cpus;
#endif
}

static long workload_number(const char *name, const char *flag, const char *text,
                            struct workload_range range)
{
    char *end = NULL;
    errno = 0;
    long value = text ? strtol(text, &end, 10) : 0;
    if (text == NULL || end == text || *end != '\0' || errno != 0 || value < range.least ||
        value > range.most) {
        fprintf(stderr, "%s: %s needs a number from %ld to %ld, got \"%s\"\n", name, flag,
                range.least, range.most, text ? text : "");
        exit(2);
    }
    return value;
}

/* Reads the arguments and starts the clock. */
static struct workload workload_begin(int argc, char **argv, const char *name, const char *about,
                                      struct workload_range size, struct workload_range steps)
{
    struct workload w = {name, size.preset, steps.preset, workload_preset_threads(), 0.0, 0, 0.0};
    struct workload_range threads = {1, WORKLOAD_MOST_THREADS, w.threads};
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--help") == 0) {
            workload_usage(stdout, name, about, size, steps);
            exit(0);
        } else if (strcmp(argv[i], "--size") == 0) {
            w.size = workload_number(name, "--size", value, size);
        } else if (strcmp(argv[i], "--steps") == 0) {
            w.steps = workload_number(name, "--steps", value, steps);
        } else if (WORKLOAD_HAS_OWN_THREADS && strcmp(argv[i], "--threads") == 0) {
            w.threads = (int)workload_number(name, "--threads", value, threads);
        } else {
            fprintf(stderr, "%s: unknown argument \"%s\"\n", name, argv[i]);
            workload_usage(stderr, name, about, size, steps);
            exit(2);
        }
    }
    w.start_s = workload_now_s();
    return w;
}

/* Memory for `count` doubles, aligned to a cache line; ends the program when there is none. */
static inline double *workload_doubles(size_t count)
{
    size_t bytes = (count * sizeof(double) + 63) / 64 * 64;
    double *memory = aligned_alloc(64, bytes);
    if (memory == NULL) {
        fprintf(stderr, "no memory for %zu bytes; choose a smaller --size\n", bytes);
        exit(2);
    }
    return memory;
}

/* Records a wrong result; the program goes on to its closing line and then exits with 1. */
static inline void workload_wrong(struct workload *w, const char *format, ...)
{
    va_list values;
    w->wrong = 1;
    fprintf(stderr, "WRONG %s: ", w->name);
    va_start(values, format);
    vfprintf(stderr, format, values);
    va_end(values);
    fputc('\n', stderr);
}

/* A number that is wrong when it is further from zero than `limit`, or not a number. */
static inline void workload_at_most(struct workload *w, const char *what, double value, double limit)
{
    if (!(fabs(value) <= limit))
        workload_wrong(w, "%s is %.3e, allowed %.3e", what, value, limit);
}

/* A well-mixed 64-bit hash (the finaliser of SplitMix64), so that random numbers depend on
 * their index and not on the thread that draws them. */
static inline uint64_t workload_hash(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* Uniform in (0, 1), never 0. */
static inline double workload_uniform(uint64_t index)
{
    return ((double)(workload_hash(index) >> 11) + 0.5) * 0x1p-53;
}

/* Prints the closing line and gives the exit status. `checksum` must not depend on the number
 * of threads beyond rounding. */
static int workload_end(struct workload *w, double checksum)
{
    double seconds = workload_now_s() - w->start_s;
    if (!isfinite(checksum)) {
        workload_wrong(w, "the checksum is not finite");
        checksum = 0.0;
    }
    printf("{\"program\":\"%s\",\"seconds\":%.6f,\"threads\":%d,\"size\":%ld,\"steps\":%ld,"
           "\"checksum\":%.12e,",
           w->name, seconds, w->threads, w->size, w->steps, checksum);
    if (w->p99_ms > 0.0)
        printf("\"p99_ms\":%.4f,", w->p99_ms);
    printf("\"ok\":%s}\n", w->wrong ? "false" : "true");
    fflush(stdout);
    return w->wrong ? 1 : 0;
}

#endif
