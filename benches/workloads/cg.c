/* Conjugate gradient: solves the Poisson equation on a grid of `--size`^3 points, `--steps`
 * times with different right-hand sides.
 *
 * The matrix is stored in compressed sparse rows, as for an unstructured problem. An iteration
 * is four short parallel regions, three of which end in a reduction: a sparse matrix-vector
 * product with p.Ap, the update of solution and residual with r.r, the largest residual, and the
 * new search direction.
 *
 * Checked: every solution against the known one from which its right-hand side was made.
 */
#include "workload.h"

#define TOLERANCE 1e-10

struct matrix {
    long rows;
    long *start;
    int *column;
    double *value;
};

static struct matrix poisson(long edge)
{
    long rows = edge * edge * edge;
    struct matrix a = {rows, malloc(sizeof(long) * (size_t)(rows + 1)),
                       malloc(sizeof(int) * 7 * (size_t)rows), workload_doubles(7 * (size_t)rows)};
    if (a.start == NULL || a.column == NULL) {
        fprintf(stderr, "cg: no memory for %ld rows; choose a smaller --size\n", rows);
        exit(2);
    }
    long at = 0;
    for (long row = 0; row < rows; row++) {
        long x = row % edge, y = row / edge % edge, z = row / edge / edge;
        long step[3] = {1, edge, edge * edge}, place[3] = {x, y, z};
        a.start[row] = at;
        for (int d = 2; d >= 0; d--)
            if (place[d] > 0) {
                a.column[at] = (int)(row - step[d]);
                a.value[at++] = -1.0;
            }
        a.column[at] = (int)row;
        a.value[at++] = 6.0;
        for (int d = 0; d < 3; d++)
            if (place[d] < edge - 1) {
                a.column[at] = (int)(row + step[d]);
                a.value[at++] = -1.0;
            }
    }
    a.start[rows] = at;
    return a;
}

static inline double row_times(const struct matrix *a, long row, const double *v)
{
    double sum = 0.0;
    for (long k = a->start[row]; k < a->start[row + 1]; k++)
        sum += a->value[k] * v[a->column[k]];
    return sum;
}

struct vectors {
    double *x, *b, *r, *p, *ap, *known;
};

/* Solves for `v.x`; gives the number of iterations, or -1 when it does not converge. */
static long solve(const struct matrix *a, struct vectors v)
{
    long n = a->rows, most = 20 * (long)cbrt((double)n) + 100;
    double rr = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : rr)
    for (long i = 0; i < n; i++) {
        v.x[i] = 0.0;
        v.r[i] = v.p[i] = v.b[i];
        rr += v.r[i] * v.r[i];
    }
    for (long iteration = 1; iteration <= most; iteration++) {
        double pap = 0.0, next = 0.0, largest = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : pap)
        for (long i = 0; i < n; i++) {
            v.ap[i] = row_times(a, i, v.p);
            pap += v.p[i] * v.ap[i];
        }
        double alpha = rr / pap;
#pragma omp parallel for schedule(static) reduction(+ : next)
        for (long i = 0; i < n; i++) {
            v.x[i] += alpha * v.p[i];
            v.r[i] -= alpha * v.ap[i];
            next += v.r[i] * v.r[i];
        }
#pragma omp parallel for schedule(static) reduction(max : largest)
        for (long i = 0; i < n; i++)
            largest = fmax(largest, fabs(v.r[i]));
        if (largest < TOLERANCE)
            return iteration;
        double beta = next / rr;
        rr = next;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            v.p[i] = v.r[i] + beta * v.p[i];
    }
    return -1;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "cg", "conjugate gradient on a sparse matrix, three reductions an iteration",
        (struct workload_range){4, 400, 40}, (struct workload_range){1, 10000000, 40});
    struct matrix a = poisson(w.size);
    size_t n = (size_t)a.rows;
    struct vectors v = {workload_doubles(n), workload_doubles(n), workload_doubles(n),
                        workload_doubles(n), workload_doubles(n), workload_doubles(n)};
    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        uint64_t seed = (uint64_t)s << 32;
#pragma omp parallel for schedule(static)
        for (long i = 0; i < a.rows; i++)
            v.known[i] = workload_uniform(seed + (uint64_t)i);
#pragma omp parallel for schedule(static)
        for (long i = 0; i < a.rows; i++)
            v.b[i] = row_times(&a, i, v.known);

        if (solve(&a, v) < 0)
            workload_wrong(&w, "system %ld did not converge", s);
        double worst = 0.0, sum = 0.0;
#pragma omp parallel for schedule(static) reduction(max : worst) reduction(+ : sum)
        for (long i = 0; i < a.rows; i++) {
            worst = fmax(worst, fabs(v.x[i] - v.known[i]));
            sum += v.x[i];
        }
        workload_at_most(&w, "error of the solution", worst, 1e-6);
        checksum += sum;
    }
    return workload_end(&w, checksum);
}
