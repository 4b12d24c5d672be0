/* A steady beat of short parallel regions, to see how a program takes a change of its CPUs.
 *
 * Each region does the same fixed amount of work, split statically over the team. The program
 * prints one line of JSON for every 50 ms and whenever the size of its team changes:
 *
 *     {"now_ns":1234,"regions":56,"threads":2}
 *
 * with the monotonic time at the end of the region, the regions completed so far and the size of
 * the team of the last one. `--region-us` sets how long a region takes on one CPU, `--seconds`
 * how long the program beats.
 */
#define _POSIX_C_SOURCE 200809L /* for clock_gettime */

#include <omp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LANES = 64 };

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* `rounds` steps of a generator that the compiler cannot shorten. */
static uint64_t churn(uint64_t seed, long rounds)
{
    for (long i = 0; i < rounds; i++)
        seed = seed * 6364136223846793005u + 1442695040888963407u;
    return seed;
}

/* Rounds that take a microsecond on this machine: the fastest of several tries. */
static double rounds_per_us(void)
{
    volatile uint64_t sink = 1;
    double best = 0.0;
    for (int i = 0; i < 20; i++) {
        uint64_t start = now_ns();
        sink = churn(sink, 200000);
        double rate = 200000.0 / ((double)(now_ns() - start) / 1000.0);
        if (rate > best)
            best = rate;
    }
    return best;
}

static double positive(const char *flag, const char *text)
{
    char *end = NULL;
    double value = text ? strtod(text, &end) : 0.0;
    if (text == NULL || end == text || *end != '\0' || !(value > 0.0 && value <= 1e6)) {
        fprintf(stderr, "pulse: %s needs a number above 0, got \"%s\"\n", flag, text ? text : "");
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    double region_us = 400.0;
    double seconds = 5.0;
    for (int i = 1; i < argc; i += 2) {
        const char *value = i + 1 < argc ? argv[i + 1] : NULL;
        if (strcmp(argv[i], "--region-us") == 0) {
            region_us = positive("--region-us", value);
        } else if (strcmp(argv[i], "--seconds") == 0) {
            seconds = positive("--seconds", value);
        } else {
            fprintf(stderr, "pulse: unknown argument \"%s\"; give --region-us or --seconds\n", argv[i]);
            return 2;
        }
    }

    long rounds = (long)(rounds_per_us() * region_us / LANES) + 1;
    uint64_t lanes[LANES];
    for (int i = 0; i < LANES; i++)
        lanes[i] = (uint64_t)i;

    uint64_t start = now_ns(), told = 0, regions = 0;
    int threads = 0, told_threads = 0;
    for (;;) {
#pragma omp parallel
        {
#pragma omp master
            threads = omp_get_num_threads();
#pragma omp for schedule(static)
            for (int i = 0; i < LANES; i++)
                lanes[i] = churn(lanes[i], rounds);
        }
        regions++;
        uint64_t now = now_ns();
        if (threads != told_threads || now - told >= 50000000u) {
            printf("{\"now_ns\":%llu,\"regions\":%llu,\"threads\":%d}\n", (unsigned long long)now,
                   (unsigned long long)regions, threads);
            fflush(stdout);
            told = now;
            told_threads = threads;
        }
        if ((double)(now - start) >= seconds * 1e9)
            break;
    }

    /* The lanes hold what a serial run leaves there, whatever the teams were: the generator is
     * x -> a x + c, so n steps are one such map, found by repeated squaring. */
    uint64_t a = 6364136223846793005u, c = 1442695040888963407u, total_a = 1, total_c = 0;
    for (uint64_t n = regions * (uint64_t)rounds; n > 0; n >>= 1) {
        if (n & 1) {
            total_a *= a;
            total_c = total_c * a + c;
        }
        c *= a + 1;
        a *= a;
    }
    for (int i = 0; i < LANES; i++) {
        if (lanes[i] != (uint64_t)i * total_a + total_c) {
            fprintf(stderr, "WRONG pulse: lane %d\n", i);
            return 1;
        }
    }
    return 0;
}
