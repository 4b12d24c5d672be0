/* A program with a pool of threads of its own that keeps as many of them busy as it has CPUs.
 *
 *     cc -pthread pool.c $(pkg-config --cflags --libs mapper) -o pool
 *     mapper-launch -- ./pool 2000
 *
 * Each worker has a number. Before every piece of work it looks whether its number is below the CPU
 * count and sleeps if not; the main thread waits for changes and wakes the workers. Without mapper,
 * all of them work.
 */
#include <mapper.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static unsigned active, changes; /* how many may work; how often that has changed */
static unsigned busy, most_busy; /* how many are at a piece begun since then, and ever were */
static long pieces_left;

static void piece_of_work(void)
{
    volatile double x = 1;
    for (int i = 0; i < 100000; i++)
        x = x * 0.999 + 0.001;
}

static void *work(void *argument)
{
    unsigned number = (unsigned)(size_t)argument;
    pthread_mutex_lock(&mutex);
    while (pieces_left > 0) {
        if (number >= active) {
            pthread_cond_wait(&changed, &mutex);
            continue;
        }
        unsigned begun = changes;
        pieces_left--;
        busy++;
        most_busy = busy > most_busy ? busy : most_busy;
        pthread_mutex_unlock(&mutex);
        piece_of_work();
        mapper_work_done(1);
        pthread_mutex_lock(&mutex);
        if (begun == changes)
            busy--;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void let_work(unsigned count)
{
    pthread_mutex_lock(&mutex);
    active = count;
    changes++;
    busy = most_busy = 0;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&mutex);
    printf("%u threads\n", count);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    pieces_left = argc > 1 ? atol(argv[1]) : 2000;
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned pool = argc > 2 ? (unsigned)atoi(argv[2]) : (unsigned)processors;
    pthread_t *threads = calloc(pool, sizeof *threads);
    struct mapper_allocation allocation = {0, pool, 0};

    mapper_serial_begin(); /* an application would read its input here */
    mapper_declare_cpus(1, pool);
    mapper_get_allocation(&allocation);
    let_work(allocation.cpu_count);
    mapper_serial_end();
    for (unsigned i = 0; i < pool; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(size_t)i) != 0)
            return 1;
    for (;;) {
        pthread_mutex_lock(&mutex);
        long left = pieces_left;
        pthread_mutex_unlock(&mutex);
        if (left <= 0)
            break;
        if (mapper_wait(allocation.generation, 0.05, &allocation))
            let_work(allocation.cpu_count);
    }
    for (unsigned i = 0; i < pool; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    printf("done, %u at a time\n", most_busy);
    return 0;
}
