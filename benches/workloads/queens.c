/* The queens problem: all ways to put `--size` queens on a board, counted `--steps` times by POSIX
 * threads that take pieces from one queue.
 *
 * A piece is a way to place the first two queens. Pieces differ in cost; who is done takes the
 * next, so the work shares itself out among however many threads run.
 *
 * Compiled with WORKLOAD_MAPPER it is the program `queens-elastic`: of its threads as many work as
 * it has CPUs, and it tells mapper how many pieces are done. Without, nothing follows the CPUs.
 *
 * Checked: the number of solutions of every board is the known one.
 */
#include "threads.h"

#include <stdatomic.h>

enum { LEAST = 4, MOST = 16 };
static const long SOLUTIONS[MOST + 1] = {[4] = 2,      [5] = 10,     [6] = 4,       [7] = 40,
                                         [8] = 92,     [9] = 352,    [10] = 724,    [11] = 2680,
                                         [12] = 14200, [13] = 73712, [14] = 365596, [15] = 2279184,
                                         [16] = 14772512};

struct board {
    int size;
    long pieces; /* of all boards together */
    atomic_long next;
    atomic_long *solutions; /* of each board */
#ifdef WORKLOAD_MAPPER
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int active; /* workers with a lower number work */
#endif
};

/* Ways to go on below queens that attack these columns and diagonals. */
static long ways(uint32_t all, uint32_t columns, uint32_t left, uint32_t right)
{
    if (columns == all)
        return 1;
    long found = 0;
    for (uint32_t free = all & ~(columns | left | right); free != 0; free &= free - 1) {
        uint32_t queen = free & -free;
        found += ways(all, columns | queen, (left | queen) << 1, (right | queen) >> 1);
    }
    return found;
}

static long ways_of_piece(int size, long piece)
{
    uint32_t all = (1u << size) - 1;
    uint32_t first = 1u << piece % size, second = 1u << piece / size;
    if (second & (first | first << 1 | first >> 1))
        return 0;
    return ways(all, first | second, (first << 1 | second) << 1, (first >> 1 | second) >> 1);
}

#ifdef WORKLOAD_MAPPER
#define NAME "queens-elastic"

/* Waits while there are fewer CPUs than workers before this one. */
static void wait_for_turn(struct board *b, int number)
{
    pthread_mutex_lock(&b->mutex);
    while (number >= b->active && b->next < b->pieces)
        pthread_cond_wait(&b->changed, &b->mutex);
    pthread_mutex_unlock(&b->mutex);
}

static void let_work(struct board *b, int count)
{
    pthread_mutex_lock(&b->mutex);
    b->active = count;
    pthread_cond_broadcast(&b->changed);
    pthread_mutex_unlock(&b->mutex);
}

/* Has as many workers work as there are CPUs, until all pieces are taken. */
static void follow_cpus(struct board *b, int threads)
{
    struct mapper_allocation allocation = {0, 0, 0};
    mapper_declare_cpus(1, (unsigned)threads);
    if (mapper_get_allocation(&allocation)) {
        let_work(b, (int)allocation.cpu_count);
        while (b->next < b->pieces)
            if (mapper_wait(allocation.generation, 0.02, &allocation))
                let_work(b, (int)allocation.cpu_count);
    }
    let_work(b, threads);
}
#else
#define NAME "queens"
#endif

static void *work(void *argument)
{
    struct worker *self = argument;
    struct board *b = self->shared;
    long of_board = (long)b->size * b->size;
    for (;;) {
#ifdef WORKLOAD_MAPPER
        wait_for_turn(b, self->number);
#endif
        long piece = atomic_fetch_add(&b->next, 1);
        if (piece >= b->pieces)
            return NULL;
        atomic_fetch_add(&b->solutions[piece / of_board], ways_of_piece(b->size, piece % of_board));
        mapper_work_done(1);
    }
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, NAME, "the queens problem by POSIX threads that take pieces from a queue",
        (struct workload_range){LEAST, MOST, 12}, (struct workload_range){1, 1000000, 100});
    struct board b = {.size = (int)w.size, .pieces = w.size * w.size * w.steps};
    b.solutions = calloc((size_t)w.steps, sizeof *b.solutions);
    if (b.solutions == NULL) {
        fprintf(stderr, NAME ": no memory for %ld boards; choose fewer --steps\n", w.steps);
        return 2;
    }
#ifdef WORKLOAD_MAPPER
    pthread_mutex_init(&b.mutex, NULL);
    pthread_cond_init(&b.changed, NULL);
    b.active = w.threads;
#endif
    struct worker *workers = workers_start(w.name, w.threads, work, &b);
#ifdef WORKLOAD_MAPPER
    follow_cpus(&b, w.threads);
#endif
    workers_join(workers, w.threads);

    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        if (b.solutions[s] != SOLUTIONS[w.size])
            workload_wrong(&w, "board %ld has %ld solutions, not %ld", s, (long)b.solutions[s],
                           SOLUTIONS[w.size]);
        checksum += (double)b.solutions[s];
    }
    return workload_end(&w, checksum);
}
