/* Memory bandwidth after the manner of STREAM: `--steps` passes of copy, scale, add and triad
 * over three arrays of `--size` MiB each, which should be larger than the last-level cache.
 *
 * A single thread nearly fills the memory bus of a small machine, so more CPUs help it little.
 *
 * Checked: every element against the recurrence that the passes amount to. Passes alternately
 * grow and shrink the data by a quarter, so a part that was left out of any pass shows.
 */
#include "workload.h"

#define PATTERN 1024

/* The factor that makes one pass multiply the data by `growth`: (1 + s)^2 = 1 + growth. */
static double factor_for(long pass)
{
    double growth = pass % 2 == 0 ? 1.25 : 0.8;
    return sqrt(1.0 + growth) - 1.0;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "triad", "copy, scale, add and triad over arrays larger than the caches",
        (struct workload_range){1, 65536, 64}, (struct workload_range){1, 10000000, 40});
    long n = w.size * (1024 * 1024 / (long)sizeof(double));
    double *a = workload_doubles((size_t)n);
    double *b = workload_doubles((size_t)n);
    double *c = workload_doubles((size_t)n);

#pragma omp parallel for schedule(static)
    for (long i = 0; i < n; i++) {
        a[i] = 1.0 + (double)(i % PATTERN) / PATTERN;
        b[i] = 0.0;
        c[i] = 0.0;
    }
    double expected = 1.0;
    for (long pass = 0; pass < w.steps; pass++) {
        double s = factor_for(pass);
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i];
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            b[i] = s * c[i];
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            c[i] = a[i] + b[i];
#pragma omp parallel for schedule(static)
        for (long i = 0; i < n; i++)
            a[i] = b[i] + s * c[i];
        expected = s * expected + s * (expected + s * expected);
    }

    double worst = 0.0, sum = 0.0;
#pragma omp parallel for schedule(static) reduction(max : worst) reduction(+ : sum)
    for (long i = 0; i < n; i++) {
        double right = expected * (1.0 + (double)(i % PATTERN) / PATTERN);
        worst = fmax(worst, fabs(a[i] - right) / right);
        sum += a[i];
    }
    workload_at_most(&w, "relative error of an element", worst,
                     1e-15 * 16.0 * (double)(w.steps + 8));
    return workload_end(&w, sum / (double)n);
}
