/* Alternating directions: the heat equation on a cube of `--size` points a side by implicit steps that
 * solve along one direction at a time, `--steps` times from different beginnings, TIMES steps each.
 *
 * All steps of a beginning are one parallel region. Each time step is five small static loops over
 * the cube: the source, lines solved along x, along y and along z, and the change; at the end of each
 * the threads meet, some twenty to fifty microseconds after the last time. This is what ADI codes such
 * as SP and BT of the NAS benchmarks do.
 *
 * Checked: every point against the exact solution of the discrete equation. The beginning is a sum of
 * waves, the source feeds one of them, and each step multiplies a wave by a factor known in advance.
 */
#include "workload.h"

#define PI 3.14159265358979323846
#define TIMES 25
#define WAVES 4
#define MOST_EDGE 256

/* How far a step goes, in units of the square of the mesh width. */
#define STEP 0.5

static const long wave_numbers[WAVES][3] = {{1, 1, 1}, {2, 1, 3}, {1, 4, 2}, {3, 2, 5}};

static inline long at(long edge, long z, long y, long x)
{
    return (z * edge + y) * edge + x;
}

/* The factors of the elimination for (1 + 2 STEP) on the diagonal and -STEP beside it: the same for
 * every line. */
static void eliminate(long edge, double *above)
{
    above[0] = STEP / (1.0 + 2.0 * STEP);
    for (long i = 1; i < edge; i++)
        above[i] = STEP / (1.0 + 2.0 * STEP - STEP * above[i - 1]);
}

/* Solves one line in place; its points lie `stride` apart. */
static inline void solve(double *line, long stride, long edge, const double *above)
{
    double last = 0.0;
    for (long i = 0; i < edge; i++)
        line[i * stride] = last = (line[i * stride] + STEP * last) * (above[i] / STEP);
    for (long i = edge - 2; i >= 0; i--)
        line[i * stride] += above[i] * line[(i + 1) * stride];
}

/* A wave at a point: a product of sines that vanish just outside the cube. */
static inline double wave(const double *sines, long edge, long w, long z, long y, long x)
{
    const long *k = wave_numbers[w];
    return sines[k[0] * edge + z] * sines[k[1] * edge + y] * sines[k[2] * edge + x];
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "sweep", "implicit steps by alternating directions, five barriers each",
        (struct workload_range){4, MOST_EDGE, 24}, (struct workload_range){1, 10000000, 40});
    const long edge = w.size, plane = edge * edge;
    double *u = workload_doubles((size_t)(plane * edge));
    double *source = workload_doubles((size_t)(plane * edge));
    double *above = workload_doubles((size_t)edge), *sines = workload_doubles((size_t)(6 * edge));
    double checksum = 0.0, factor[WAVES];
    eliminate(edge, above);
    for (long k = 0; k < 6; k++)
        for (long i = 0; i < edge; i++)
            sines[k * edge + i] = sin(PI * (double)(k * (i + 1)) / (double)(edge + 1));
    for (int v = 0; v < WAVES; v++) {
        factor[v] = 1.0;
        for (int d = 0; d < 3; d++) {
            double s = sin(PI * (double)wave_numbers[v][d] / (double)(2 * (edge + 1)));
            factor[v] /= 1.0 + 4.0 * STEP * s * s;
        }
    }

    for (long s = 0; s < w.steps; s++) {
        double amplitude[WAVES], worst = 0.0, sum = 0.0, change = 0.0;
        for (long v = 0; v < WAVES; v++)
            amplitude[v] = workload_uniform((uint64_t)(s * WAVES + v));
        const double fed = 1.0 - factor[0];
#pragma omp parallel
        {
#pragma omp for schedule(static)
            for (long z = 0; z < edge; z++)
                for (long y = 0; y < edge; y++)
                    for (long x = 0; x < edge; x++) {
                        double value = 0.0;
                        for (long v = 0; v < WAVES; v++)
                            value += amplitude[v] * wave(sines, edge, v, z, y, x);
                        u[at(edge, z, y, x)] = value;
                        /* With this source the first wave keeps its amplitude. */
                        source[at(edge, z, y, x)] =
                            amplitude[0] * fed / factor[0] * wave(sines, edge, 0, z, y, x);
                    }
            for (int t = 0; t < TIMES; t++) {
#pragma omp for schedule(static)
                for (long i = 0; i < plane * edge; i++)
                    u[i] += source[i];
#pragma omp for schedule(static)
                for (long line = 0; line < plane; line++)
                    solve(u + line * edge, 1, edge, above);
#pragma omp for schedule(static)
                for (long z = 0; z < edge; z++)
                    for (long x = 0; x < edge; x++)
                        solve(u + z * plane + x, edge, edge, above);
#pragma omp for schedule(static)
                for (long line = 0; line < plane; line++)
                    solve(u + line, plane, edge, above);
#pragma omp for schedule(static) reduction(max : change)
                for (long i = 0; i < plane * edge; i++)
                    change = fmax(change, fabs(u[i]));
            }
#pragma omp for schedule(static) reduction(max : worst) reduction(+ : sum)
            for (long z = 0; z < edge; z++)
                for (long y = 0; y < edge; y++)
                    for (long x = 0; x < edge; x++) {
                        double right = amplitude[0] * wave(sines, edge, 0, z, y, x);
                        for (long v = 1; v < WAVES; v++)
                            right += amplitude[v] * pow(factor[v], TIMES) *
                                     wave(sines, edge, v, z, y, x);
                        worst = fmax(worst, fabs(u[at(edge, z, y, x)] - right));
                        sum += fabs(u[at(edge, z, y, x)]);
                    }
        }
        workload_at_most(&w, "error of the solution", worst, 1e-9);
        workload_at_most(&w, "largest value", change, (double)WAVES);
        checksum += sum;
    }
    return workload_end(&w, checksum);
}
