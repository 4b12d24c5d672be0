// Serial and parallel parts by turns: short regions and long ones alternate, and a serial part follows each pair. Prints
// the nanoseconds in regions and altogether, by its own clock.

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000L + now.tv_nsec;
}

static void work(long ns) {
    long until = now_ns() + ns;
    while (now_ns() < until) {
    }
}

static long region(long ns) {
    long began = now_ns();
#pragma omp parallel
    work(ns);
    return now_ns() - began;
}

int main(int argc, char **argv) {
    long rounds = argc > 1 ? atol(argv[1]) : 1, unit_ns = argc > 2 ? atol(argv[2]) : 1000;
    long began = now_ns(), parallel = 0;
    for (long round = 0; round < rounds; round++) {
        parallel += region(unit_ns);
        parallel += region(3 * unit_ns);
        work(6 * unit_ns);
    }
    printf("%ld %ld\n", parallel, now_ns() - began);
}
