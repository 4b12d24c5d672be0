/* A pipeline of two stages: `--steps` items, each worked on for some `--size` microseconds, by
 * POSIX threads of which each stage has `--threads`: twice as many as CPUs by default.
 *
 * The first stage does a third of the work and hands its items over in a queue of bounded length.
 * Threads of the stage that is behind sleep, so one stage can use the CPUs of the other.
 *
 * It tells mapper how many items are done. Checked: every item came through both stages once, with
 * the result that is known for it.
 */
#include "threads.h"

#include <stdatomic.h>

enum { QUEUE = 64, MIXED = 1024 };

struct item {
    long number;
    uint64_t value;
};

struct pipeline {
    long items, rounds;
    atomic_long begun;
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    struct item queue[QUEUE];
    int head, length;
    long handed_over, taken;
    uint64_t *result; /* of each item, 0 before it is done */
};

static long first_rounds(const struct pipeline *p, long number)
{
    /* Items differ: from a half to one and a half of what is asked for. */
    long mixed = (long)(workload_hash((uint64_t)number) % MIXED);
    return p->rounds / 3 * (MIXED / 2 + mixed) / MIXED + 1;
}

static void *first_stage(void *argument)
{
    struct pipeline *p = ((struct worker *)argument)->shared;
    for (;;) {
        long number = atomic_fetch_add(&p->begun, 1);
        if (number >= p->items)
            return NULL;
        uint64_t value = churn((uint64_t)number, first_rounds(p, number));
        pthread_mutex_lock(&p->mutex);
        while (p->length == QUEUE)
            pthread_cond_wait(&p->not_full, &p->mutex);
        p->queue[(p->head + p->length++) % QUEUE] = (struct item){number, value};
        p->handed_over++;
        pthread_cond_signal(&p->not_empty);
        pthread_mutex_unlock(&p->mutex);
    }
}

static void *second_stage(void *argument)
{
    struct pipeline *p = ((struct worker *)argument)->shared;
    for (;;) {
        pthread_mutex_lock(&p->mutex);
        while (p->length == 0 && p->taken < p->items)
            pthread_cond_wait(&p->not_empty, &p->mutex);
        if (p->length == 0) {
            pthread_mutex_unlock(&p->mutex);
            return NULL;
        }
        struct item item = p->queue[p->head];
        p->head = (p->head + 1) % QUEUE;
        p->length--;
        if (++p->taken == p->items)
            pthread_cond_broadcast(&p->not_empty);
        pthread_cond_signal(&p->not_full);
        pthread_mutex_unlock(&p->mutex);
        p->result[item.number] += churn(item.value, 2 * first_rounds(p, item.number)) | 1;
        mapper_work_done(1);
    }
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "pipeline", "two stages of POSIX threads with a queue between them",
        (struct workload_range){1, 1000000, 200}, (struct workload_range){1, 10000000, 5000});
    struct pipeline p = {.items = w.steps,
                         .rounds = 1000 * w.size,
                         .mutex = PTHREAD_MUTEX_INITIALIZER,
                         .not_empty = PTHREAD_COND_INITIALIZER,
                         .not_full = PTHREAD_COND_INITIALIZER};
    p.result = calloc((size_t)w.steps, sizeof *p.result);
    if (p.result == NULL) {
        fprintf(stderr, "pipeline: no memory for %ld items; choose fewer --steps\n", w.steps);
        return 2;
    }
    struct worker *first = workers_start(w.name, w.threads, first_stage, &p);
    struct worker *second = workers_start(w.name, w.threads, second_stage, &p);
    workers_join(first, w.threads);
    workers_join(second, w.threads);

    double checksum = 0.0;
    if (p.handed_over != w.steps || p.taken != w.steps)
        workload_wrong(&w, "%ld items handed over and %ld taken", p.handed_over, p.taken);
    for (long i = 0; i < w.steps; i++) {
        uint64_t known = churned((uint64_t)i, 3 * first_rounds(&p, i)) | 1;
        if (p.result[i] != known)
            workload_wrong(&w, "item %ld came to %llx", i, (unsigned long long)p.result[i]);
        checksum += (double)(p.result[i] >> 32);
    }
    return workload_end(&w, checksum);
}
