/* A program that is idle but for some work now and then, as a notebook between two cells.
 *
 * `waker ROUNDS IDLE_MS WORK_MS` sleeps IDLE_MS until a moment that it knows, then computes until it has used WORK_MS of CPU
 * time, ROUNDS times. For each it prints how late it was awake, and how long the work took, in microseconds:
 *
 *     {"late_us":80,"work_us":20410}
 */
#define _POSIX_C_SOURCE 200809L /* for clock_nanosleep */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static int64_t us_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "waker: %d arguments; give ROUNDS IDLE_MS WORK_MS\n", argc - 1);
        return 2;
    }
    long rounds = atol(argv[1]), idle_ms = atol(argv[2]), work_ms = atol(argv[3]);
    for (long round = 0; round < rounds; round++) {
        int64_t due_us = us_of(CLOCK_MONOTONIC) + idle_ms * 1000;
        struct timespec due = {due_us / 1000000, due_us % 1000000 * 1000};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL))
            continue;
        int64_t awake_us = us_of(CLOCK_MONOTONIC), used_us = us_of(CLOCK_PROCESS_CPUTIME_ID);
        while (us_of(CLOCK_PROCESS_CPUTIME_ID) - used_us < work_ms * 1000)
            continue;
        int64_t done_us = us_of(CLOCK_MONOTONIC);
        printf("{\"late_us\":%lld,\"work_us\":%lld}\n", (long long)(awake_us - due_us), (long long)(done_us - awake_us));
        fflush(stdout);
    }
    return 0;
}
