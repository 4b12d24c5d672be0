/* A service: requests come at random times that do not depend on how fast they are answered, `--rate` a second, and take
 * `--work` steps at the mean; as many POSIX threads as the machine has CPUs answer them.
 *
 *     service [--work STEPS] [--rate REQUESTS] FILE
 *
 * A latency runs from the moment at which the request was due. The program reports each to mapper. Runs until it is ended. */
#include "progress.h"

#include <errno.h>
#include <mapper.h>
#include <math.h>
#include <pthread.h>

enum { WAITING = 65536 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t arrived = PTHREAD_COND_INITIALIZER;
static double due_s[WAITING];
static long arrivals, taken;
static double work, rate;
static struct progress *progress;

/* Exponentially distributed with mean 1, the same in each run. */
static double exponential(uint64_t *state)
{
    *state = churn(*state, 4);
    return -log(((double)(*state >> 11) + 0.5) * 0x1p-53);
}

static void *answer(void *number)
{
    uint64_t state = (uint64_t)(intptr_t)number + 1;
    volatile uint64_t sink = 0;
    for (;;) {
        pthread_mutex_lock(&mutex);
        while (taken == arrivals)
            pthread_cond_wait(&arrived, &mutex);
        double due = due_s[taken++ % WAITING];
        pthread_mutex_unlock(&mutex);
        sink = churn(sink, (long)(work * exponential(&state)));
        double latency_s = now_s() - due;
        double class = 4 * log2(latency_s * 1e6);
        int number_of_class = class < 0 ? 0 : class >= LATENCY_CLASSES ? LATENCY_CLASSES - 1 : (int)class;
        progress->latency[number_of_class]++;
        one_more(progress);
        mapper_latency(latency_s);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    work = option(argc, argv, "--work", 1e6);
    rate = option(argc, argv, "--rate", 100);
    progress = progress_of(argc, argv);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (long i = 0; i < cpus; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, answer, (void *)(intptr_t)i) != 0) {
            perror("service: pthread_create");
            return 1;
        }
    }
    uint64_t state = 0;
    for (double due = now_s();;) {
        due += exponential(&state) / rate;
        struct timespec until = {.tv_sec = (time_t)due};
        until.tv_nsec = (long)((due - (double)until.tv_sec) * 1e9);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR)
            continue;
        pthread_mutex_lock(&mutex);
        if (arrivals - taken < WAITING)
            due_s[arrivals++ % WAITING] = due;
        pthread_cond_signal(&arrived);
        pthread_mutex_unlock(&mutex);
    }
}
