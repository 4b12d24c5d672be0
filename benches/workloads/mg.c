/* Multigrid: solves the Poisson equation on a cube of 2^`--size` - 1 points a side by V-cycles,
 * `--steps` times with different right-hand sides.
 *
 * A cycle goes from the finest grid to a single point and back. Each grid is worked on in eleven
 * parallel regions (four half sweeps of red-black Gauss-Seidel down and four up, residual,
 * restriction, prolongation), and has an eighth of the points of the one above it: most regions of
 * the program are so small that what they cost is the barrier at their end.
 *
 * Checked: that every cycle brings the residual down by as much as multigrid promises, and every
 * solution against the known one from which its right-hand side was made.
 */
#include "workload.h"

#define MOST_LEVELS 8
#define MOST_CYCLES 40
#define TOLERANCE 1e-9
#define SWEEPS 2

/* A cube of edge^3 points within a shell of zeros. The mesh width is 1 on the finest grid. */
struct grid {
    long edge;
    double width2;
    double *u, *f, *r;
};

static inline long at(const struct grid *g, long z, long y, long x)
{
    long side = g->edge + 2;
    return (z * side + y) * side + x;
}

static inline size_t cells(const struct grid *g)
{
    size_t side = (size_t)g->edge + 2;
    return side * side * side;
}

/* The sum of the six neighbours. */
static inline double around(const struct grid *g, const double *v, long i)
{
    long row = g->edge + 2, plane = row * row;
    return v[i - 1] + v[i + 1] + v[i - row] + v[i + row] + v[i - plane] + v[i + plane];
}

/* Gauss-Seidel on the points of one colour: none of them is another's neighbour, so the result
 * does not depend on the order. */
static void sweep(struct grid *g, long colour)
{
#pragma omp parallel for schedule(static)
    for (long z = 1; z <= g->edge; z++)
        for (long y = 1; y <= g->edge; y++)
            for (long x = 1 + (z + y + colour) % 2; x <= g->edge; x += 2) {
                long i = at(g, z, y, x);
                g->u[i] = (around(g, g->u, i) + g->width2 * g->f[i]) / 6.0;
            }
}

static void smooth(struct grid *g)
{
    for (int s = 0; s < SWEEPS; s++) {
        sweep(g, 0);
        sweep(g, 1);
    }
}

/* r = f plus the Laplacian of u; gives the largest. */
static double residual(struct grid *g)
{
    double largest = 0.0;
#pragma omp parallel for schedule(static) reduction(max : largest)
    for (long z = 1; z <= g->edge; z++)
        for (long y = 1; y <= g->edge; y++)
            for (long x = 1; x <= g->edge; x++) {
                long i = at(g, z, y, x);
                g->r[i] = g->f[i] - (6.0 * g->u[i] - around(g, g->u, i)) / g->width2;
                largest = fmax(largest, fabs(g->r[i]));
            }
    return largest;
}

/* The coarse right-hand side is the fine residual, averaged with the weights 1/4, 1/2, 1/4 in each
 * direction. The coarse grid starts from nothing. */
static void restrict_to(struct grid *coarse, const struct grid *fine)
{
#pragma omp parallel for schedule(static)
    for (long z = 1; z <= coarse->edge; z++)
        for (long y = 1; y <= coarse->edge; y++)
            for (long x = 1; x <= coarse->edge; x++) {
                double sum = 0.0;
                for (long dz = -1; dz <= 1; dz++)
                    for (long dy = -1; dy <= 1; dy++)
                        for (long dx = -1; dx <= 1; dx++) {
                            long distance = labs(dz) + labs(dy) + labs(dx);
                            sum += fine->r[at(fine, 2 * z + dz, 2 * y + dy, 2 * x + dx)] *
                                   (double)(8 >> distance);
                        }
                coarse->f[at(coarse, z, y, x)] = sum / 64.0;
                coarse->u[at(coarse, z, y, x)] = 0.0;
            }
}

/* Adds the coarse solution to the fine one, linearly between the coarse points. */
static void prolong_to(struct grid *fine, const struct grid *coarse)
{
#pragma omp parallel for schedule(static)
    for (long z = 1; z <= fine->edge; z++)
        for (long y = 1; y <= fine->edge; y++)
            for (long x = 1; x <= fine->edge; x++) {
                double sum = 0.0;
                for (long dz = 0; dz <= z % 2; dz++)
                    for (long dy = 0; dy <= y % 2; dy++)
                        for (long dx = 0; dx <= x % 2; dx++)
                            sum += coarse->u[at(coarse, z / 2 + dz, y / 2 + dy, x / 2 + dx)];
                long between = z % 2 + y % 2 + x % 2;
                fine->u[at(fine, z, y, x)] += sum / (double)(1 << between);
            }
}

static void cycle(struct grid *levels, long level)
{
    struct grid *g = &levels[level];
    if (g->edge == 1) {
        long i = at(g, 1, 1, 1);
        g->u[i] = g->width2 * g->f[i] / 6.0;
        return;
    }
    smooth(g);
    residual(g);
    restrict_to(&levels[level + 1], g);
    cycle(levels, level + 1);
    prolong_to(g, &levels[level + 1]);
    smooth(g);
}

static struct grid make_grid(long edge, double width)
{
    struct grid g = {edge, width * width, NULL, NULL, NULL};
    size_t count = cells(&g);
    g.u = workload_doubles(count);
    g.f = workload_doubles(count);
    g.r = workload_doubles(count);
    for (size_t i = 0; i < count; i++)
        g.u[i] = g.f[i] = g.r[i] = 0.0;
    return g;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "mg", "multigrid V-cycles, eleven short parallel regions on each grid",
        (struct workload_range){2, MOST_LEVELS, 6}, (struct workload_range){1, 10000000, 40});
    struct grid levels[MOST_LEVELS];
    for (long level = 0; level < w.size; level++)
        levels[level] = make_grid((1L << (w.size - level)) - 1, (double)(1L << level));
    struct grid *g = &levels[0];
    double *known = workload_doubles(cells(g)), checksum = 0.0;
    for (size_t i = 0; i < cells(g); i++)
        known[i] = 0.0;

    for (long s = 0; s < w.steps; s++) {
        uint64_t seed = (uint64_t)s << 32;
#pragma omp parallel for schedule(static)
        for (long z = 1; z <= g->edge; z++)
            for (long y = 1; y <= g->edge; y++)
                for (long x = 1; x <= g->edge; x++) {
                    long i = at(g, z, y, x);
                    known[i] = workload_uniform(seed + (uint64_t)i);
                    g->u[i] = 0.0;
                }
#pragma omp parallel for schedule(static)
        for (long z = 1; z <= g->edge; z++)
            for (long y = 1; y <= g->edge; y++)
                for (long x = 1; x <= g->edge; x++) {
                    long i = at(g, z, y, x);
                    g->f[i] = (6.0 * known[i] - around(g, known, i)) / g->width2;
                }

        double first = residual(g), now = first;
        long cycles = 0;
        while (now > TOLERANCE * first && cycles < MOST_CYCLES) {
            cycle(levels, 0);
            now = residual(g);
            cycles++;
        }
        /* A cycle is worth a factor of five at the least; ten is usual. */
        workload_at_most(&w, "cycles a system took", (double)cycles, -log(TOLERANCE) / log(5.0));
        double worst = 0.0, sum = 0.0;
#pragma omp parallel for schedule(static) reduction(max : worst) reduction(+ : sum)
        for (long z = 1; z <= g->edge; z++)
            for (long y = 1; y <= g->edge; y++)
                for (long x = 1; x <= g->edge; x++) {
                    long i = at(g, z, y, x);
                    worst = fmax(worst, fabs(g->u[i] - known[i]));
                    sum += g->u[i];
                }
        workload_at_most(&w, "error of the solution", worst, 1e-5);
        checksum += sum;
    }
    return workload_end(&w, checksum);
}
