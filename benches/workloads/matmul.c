/* Dense matrix multiplication: `--steps` products of two matrices of `--size` rows, in tiles that
 * fit into the first-level cache.
 *
 * The tiles of a product are divided statically over the team: one long region, no waiting but at
 * its end, little memory traffic.
 *
 * Checked: every product by a random vector, after Freivalds: C x = A (B x).
 */
#include "workload.h"

#define TILE 32

struct product {
    long n;
    const double *a, *b;
    double *c;
};

static inline long least(long one, long other)
{
    return one < other ? one : other;
}

/* The tile of C whose first element is (row, column). */
static void multiply_tile(const struct product *p, long row, long column)
{
    long n = p->n, rows = least(row + TILE, n), columns = least(column + TILE, n);
    double sums[TILE][TILE] = {{0.0}};
    for (long inner = 0; inner < n; inner += TILE)
        for (long i = row; i < rows; i++)
            for (long k = inner; k < least(inner + TILE, n); k++) {
                double factor = p->a[i * n + k];
                for (long j = column; j < columns; j++)
                    sums[i - row][j - column] += factor * p->b[k * n + j];
            }
    for (long i = row; i < rows; i++)
        for (long j = column; j < columns; j++)
            p->c[i * n + j] = sums[i - row][j - column];
}

/* y = M x, on one thread. */
static void times_vector(long n, const double *m, const double *x, double *y)
{
    for (long i = 0; i < n; i++) {
        double sum = 0.0;
        for (long k = 0; k < n; k++)
            sum += m[i * n + k] * x[k];
        y[i] = sum;
    }
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "matmul", "dense matrix multiplication in tiles",
        (struct workload_range){1, 16384, 320}, (struct workload_range){1, 10000000, 20});
    long n = w.size, tiles = (n + TILE - 1) / TILE;
    size_t elements = (size_t)n * (size_t)n, rows = (size_t)n;
    double *a = workload_doubles(elements), *b = workload_doubles(elements);
    double *c = workload_doubles(elements);
    double *x = workload_doubles(rows), *bx = workload_doubles(rows);
    double *abx = workload_doubles(rows), *cx = workload_doubles(rows);

#pragma omp parallel for schedule(static)
    for (long i = 0; i < n * n; i++) {
        a[i] = workload_uniform((uint64_t)i) - 0.5;
        b[i] = workload_uniform((uint64_t)(i + n * n)) - 0.5;
    }
    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        struct product p = {n, a, b, c};
        /* Another product in each step, or a compiler might leave one out. */
        b[workload_hash((uint64_t)s) % elements] = workload_uniform((uint64_t)(s + 3 * n * n));
#pragma omp parallel for schedule(static)
        for (long tile = 0; tile < tiles * tiles; tile++)
            multiply_tile(&p, tile / tiles * TILE, tile % tiles * TILE);

        for (long i = 0; i < n; i++)
            x[i] = workload_uniform((uint64_t)i ^ (uint64_t)s << 32);
        times_vector(n, b, x, bx);
        times_vector(n, a, bx, abx);
        times_vector(n, c, x, cx);
        double worst = 0.0;
        for (long i = 0; i < n; i++) {
            worst = fmax(worst, fabs(cx[i] - abx[i]));
            checksum += fabs(cx[i]);
        }
        workload_at_most(&w, "error of a product", worst, 1e-12 * (double)n);
    }
    return workload_end(&w, checksum);
}
