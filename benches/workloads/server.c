/* A server: `--steps` requests, `--size` a second, answered by a pool of `--threads` POSIX threads.
 *
 * The requests come from a thread of the program's own at times that do not depend on how fast it
 * answers (an open load, exponential gaps), and take 0.2 ms on average, exponentially distributed.
 * The latency of a request runs from the moment at which it was due, so that a stall counts for all
 * the requests that it keeps waiting. Mapper is told every latency; the closing line has the 99th
 * percentile.
 *
 * Checked: every request was answered once, with the answer that is known for it.
 */
#include "threads.h"

#define MEAN_ROUNDS 200000.0

struct request {
    double due_s; /* after the start */
    double latency_s;
    long rounds;
    uint64_t answer;
    int answers;
};

struct server {
    long requests;
    double start_s;
    pthread_mutex_t mutex;
    pthread_cond_t arrived;
    long arrivals, taken; /* requests before these numbers */
    struct request *request;
};

static double exponential(uint64_t index)
{
    return -log(workload_uniform(index));
}

static void *answer_requests(void *argument)
{
    struct server *v = ((struct worker *)argument)->shared;
    for (;;) {
        pthread_mutex_lock(&v->mutex);
        while (v->taken == v->arrivals && v->taken < v->requests)
            pthread_cond_wait(&v->arrived, &v->mutex);
        long number = v->taken;
        v->taken += number < v->requests;
        if (v->taken == v->requests)
            pthread_cond_broadcast(&v->arrived);
        pthread_mutex_unlock(&v->mutex);
        if (number == v->requests)
            return NULL;
        struct request *r = &v->request[number];
        r->answer = churn((uint64_t)number, r->rounds);
        r->answers++;
        r->latency_s = workload_now_s() - v->start_s - r->due_s;
        mapper_latency(r->latency_s);
    }
}

/* Lets each request arrive when it is due. */
static void send_requests(struct server *v)
{
    for (long i = 0; i < v->requests; i++) {
        double due_s = v->start_s + v->request[i].due_s;
        struct timespec due = {.tv_sec = (time_t)due_s};
        due.tv_nsec = (long)((due_s - (double)due.tv_sec) * 1e9);
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, NULL) == EINTR)
            ;
        pthread_mutex_lock(&v->mutex);
        v->arrivals++;
        pthread_cond_signal(&v->arrived);
        pthread_mutex_unlock(&v->mutex);
    }
}

static int by_size(const void *one, const void *other)
{
    double a = *(const double *)one, b = *(const double *)other;
    return (a > b) - (a < b);
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "server", "answers requests that come at random times",
        (struct workload_range){1, 1000000, 1500}, (struct workload_range){1, 10000000, 3000});
    struct server v = {.requests = w.steps,
                       .mutex = PTHREAD_MUTEX_INITIALIZER,
                       .arrived = PTHREAD_COND_INITIALIZER};
    v.request = calloc((size_t)w.steps, sizeof *v.request);
    if (v.request == NULL) {
        fprintf(stderr, "server: no memory for %ld requests; choose fewer --steps\n", w.steps);
        return 2;
    }
    double due_s = 0.0;
    for (long i = 0; i < w.steps; i++) {
        due_s += exponential(2 * (uint64_t)i) / (double)w.size;
        v.request[i].due_s = due_s;
        v.request[i].rounds = (long)(exponential(2 * (uint64_t)i + 1) * MEAN_ROUNDS) + 1;
    }
    v.start_s = workload_now_s();
    struct worker *workers = workers_start(w.name, w.threads, answer_requests, &v);
    send_requests(&v);
    workers_join(workers, w.threads);

    double *latency_s = workload_doubles((size_t)w.steps);
    double checksum = 0.0;
    for (long i = 0; i < w.steps; i++) {
        struct request r = v.request[i];
        if (r.answers != 1 || r.answer != churned((uint64_t)i, r.rounds))
            workload_wrong(&w, "request %ld was answered %d times, with %llx", i, r.answers,
                           (unsigned long long)r.answer);
        checksum += (double)(r.answer >> 32);
        latency_s[i] = r.latency_s;
    }
    qsort(latency_s, (size_t)w.steps, sizeof *latency_s, by_size);
    w.p99_ms = 1e3 * latency_s[(w.steps * 99 + 99) / 100 - 1];
    return workload_end(&w, checksum);
}
