/* Heat on a torus: `--steps` Jacobi sweeps over `--size`^2 points, by POSIX threads that meet at a
 * barrier after each sweep.
 *
 * Every thread has the same rows from beginning to end, so the slowest thread decides the pace,
 * and a thread that has no CPU stops all others. Nothing in the program follows its CPUs.
 *
 * Checked: heat in the form of a product of sines keeps that form, so the result is known.
 */
#include "threads.h"

struct torus {
    long n, sweeps;
    int threads;
    double *from, *to, *source;
    pthread_barrier_t swept;
};

/* Rows of one thread, from one sweep to the next. */
static void *sweep_rows(void *argument)
{
    struct worker *self = argument;
    struct torus *t = self->shared;
    long n = t->n;
    long first = n * self->number / t->threads, end = n * (self->number + 1) / t->threads;
    double *from = t->from, *to = t->to;
    for (long s = 0; s < t->sweeps; s++) {
        for (long row = first; row < end; row++) {
            const double *here = from + row * n;
            const double *above = from + (row + n - 1) % n * n, *below = from + (row + 1) % n * n;
            for (long i = 0; i < n; i++) {
                double left = here[i == 0 ? n - 1 : i - 1], right = here[i == n - 1 ? 0 : i + 1];
                to[row * n + i] = 0.25 * (above[i] + below[i] + left + right) + t->source[row * n + i];
            }
        }
        double *swap = from;
        from = to;
        to = swap;
        pthread_barrier_wait(&t->swept);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "jacobi", "Jacobi sweeps by POSIX threads, a barrier after each",
        (struct workload_range){8, 16384, 256}, (struct workload_range){1, 100000000, 5000});
    long n = w.size;
    size_t points = (size_t)n * (size_t)n;
    struct torus t = {.n = n, .sweeps = w.steps, .threads = w.threads};
    t.from = workload_doubles(points);
    t.to = workload_doubles(points);
    t.source = workload_doubles(points);
    double *form = workload_doubles(points);
    double angle = 2.0 * acos(-1.0) / (double)n, kept = cos(angle);
    for (long i = 0; i < n * n; i++) {
        form[i] = sin(angle * ((double)(i / n) + 0.5)) * sin(angle * ((double)(i % n) + 0.5));
        t.from[i] = t.to[i] = 0.0;
        t.source[i] = (1.0 - kept) * form[i];
    }
    if (pthread_barrier_init(&t.swept, NULL, (unsigned)t.threads) != 0) {
        fprintf(stderr, "jacobi: no barrier for %d threads\n", t.threads);
        return 2;
    }
    workers_join(workers_start(w.name, t.threads, sweep_rows, &t), t.threads);

    /* A sweep keeps cos(angle) of the form, and the source adds what is lost once the form is full:
     * after s sweeps from nothing it is 1 - cos(angle)^s full. */
    double full = 1.0 - pow(kept, (double)w.steps), worst = 0.0, checksum = 0.0;
    const double *result = w.steps % 2 == 0 ? t.from : t.to;
    for (size_t i = 0; i < points; i++) {
        worst = fmax(worst, fabs(result[i] - full * form[i]));
        checksum += fabs(result[i]);
    }
    workload_at_most(&w, "error of the heat over its height", worst / full, 1e-9);
    return workload_end(&w, checksum);
}
