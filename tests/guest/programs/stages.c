/* A pipeline of four stages, each with as many POSIX threads as the machine has CPUs.
 *
 *     stages [--work STEPS] FILE
 *
 * An item takes `--work` steps in all; the third stage has two thirds of them. Queues between stages hold eight items for
 * each CPU. It reports what is done to mapper. Runs until it is ended. */
#include "progress.h"

#include <mapper.h>
#include <pthread.h>

enum { STAGES = 4, MOST_ITEMS = 4096 };

static const double share[STAGES] = {1.0 / 9, 1.0 / 9, 6.0 / 9, 1.0 / 9};

struct queue {
    pthread_mutex_t mutex;
    pthread_cond_t not_empty, not_full;
    uint64_t items[MOST_ITEMS];
    long room, head, length;
};

static struct queue queues[STAGES - 1];
static double work;
static struct progress *progress;

static void put(struct queue *queue, uint64_t item)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->length == queue->room)
        pthread_cond_wait(&queue->not_full, &queue->mutex);
    queue->items[(queue->head + queue->length++) % queue->room] = item;
    pthread_cond_signal(&queue->not_empty);
    pthread_mutex_unlock(&queue->mutex);
}

static uint64_t take(struct queue *queue)
{
    pthread_mutex_lock(&queue->mutex);
    while (queue->length == 0)
        pthread_cond_wait(&queue->not_empty, &queue->mutex);
    uint64_t item = queue->items[queue->head];
    queue->head = (queue->head + 1) % queue->room;
    queue->length--;
    pthread_cond_signal(&queue->not_full);
    pthread_mutex_unlock(&queue->mutex);
    return item;
}

static void *run_stage(void *number)
{
    long stage = (long)(intptr_t)number;
    for (uint64_t item = 1;;) {
        if (stage > 0)
            item = take(&queues[stage - 1]);
        item = churn(item, (long)(work * share[stage]));
        if (stage < STAGES - 1) {
            put(&queues[stage], item);
        } else {
            one_more(progress);
            mapper_work_done(1);
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    work = option(argc, argv, "--work", 1e7);
    progress = progress_of(argc, argv);
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    for (int i = 0; i < STAGES - 1; i++) {
        pthread_mutex_init(&queues[i].mutex, NULL);
        pthread_cond_init(&queues[i].not_empty, NULL);
        pthread_cond_init(&queues[i].not_full, NULL);
        queues[i].room = 8 * cpus < MOST_ITEMS ? 8 * cpus : MOST_ITEMS;
    }
    pthread_t last;
    for (long i = 0; i < STAGES * cpus; i++) {
        if (pthread_create(&last, NULL, run_stage, (void *)(intptr_t)(i % STAGES)) != 0) {
            perror("stages: pthread_create");
            return 1;
        }
    }
    pthread_join(last, NULL);
    return 1;
}
