/* Molecular dynamics: a Lennard-Jones liquid of `--size` atoms, `--steps` velocity-Verlet steps.
 *
 * Small systems are what makes molecular dynamics hard to share a machine with: a step takes
 * some hundred microseconds and holds four barriers, so a thread that waits for a neighbour
 * which is not running loses thousands of steps a second.
 *
 * All pairs are examined and each atom sums its own forces in the order of the others, so the
 * trajectory is the same to the last bit for any number of threads.
 *
 * Checked: the first steps against a serial run, the total energy and the total momentum of the
 * whole run.
 */
#include "workload.h"

#define DENSITY 0.8
#define TIME_STEP 0.002
#define CUTOFF 2.5
#define SERIAL_STEPS 20

struct atoms {
    long count;
    double box;
    double *x, *y, *z;
    double *vx, *vy, *vz;
    double *fx, *fy, *fz;
    double *potential;
};

static struct atoms new_atoms(long count)
{
    long edge = 1;
    while (edge * edge * edge < count)
        edge++;
    double spacing = cbrt(1.0 / DENSITY);
    struct atoms a = {.count = count, .box = spacing * (double)edge};
    double **arrays[] = {&a.x,  &a.y,  &a.z,  &a.vx, &a.vy,
                         &a.vz, &a.fx, &a.fy, &a.fz, &a.potential};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        *arrays[i] = workload_doubles((size_t)count);

    double mean[3] = {0.0, 0.0, 0.0};
    for (long i = 0; i < count; i++) {
        a.x[i] = spacing * (double)(i % edge);
        a.y[i] = spacing * (double)(i / edge % edge);
        a.z[i] = spacing * (double)(i / edge / edge);
        a.vx[i] = 4.0 * workload_uniform(3 * (uint64_t)i) - 2.0;
        a.vy[i] = 4.0 * workload_uniform(3 * (uint64_t)i + 1) - 2.0;
        a.vz[i] = 4.0 * workload_uniform(3 * (uint64_t)i + 2) - 2.0;
        a.fx[i] = a.fy[i] = a.fz[i] = a.potential[i] = 0.0;
        mean[0] += a.vx[i] / (double)count;
        mean[1] += a.vy[i] / (double)count;
        mean[2] += a.vz[i] / (double)count;
    }
    for (long i = 0; i < count; i++) {
        a.vx[i] -= mean[0];
        a.vy[i] -= mean[1];
        a.vz[i] -= mean[2];
    }
    return a;
}

/* Shortest periodic image of a distance. Written without branches, as below: which atoms are near
 * is hard to predict, and how well it is predicted would depend on the number of threads. */
static inline double image(double d, double box)
{
    double half = 0.5 * box;
    d -= d > half ? box : 0.0;
    d += d < -half ? box : 0.0;
    return d;
}

/* Force and half of the potential on one atom. The force is shifted so that it and the energy
 * go to zero at the cutoff together; otherwise atoms that cross it would change the energy. An atom
 * beyond the cutoff, or the atom itself, is put at the cutoff, where it counts nothing. */
static void force_on(const struct atoms *a, long i)
{
    double reach = fmin(CUTOFF, 0.5 * a->box), reach2 = reach * reach;
    double c2 = 1.0 / reach2, c6 = c2 * c2 * c2;
    double edge_potential = 4.0 * c6 * (c6 - 1.0);
    double edge_slope = 24.0 * c6 * (2.0 * c6 - 1.0) / reach;
    double xi = a->x[i], yi = a->y[i], zi = a->z[i];
    double fx = 0.0, fy = 0.0, fz = 0.0, potential = 0.0;
    for (long j = 0; j < a->count; j++) {
        double dx = image(xi - a->x[j], a->box);
        double dy = image(yi - a->y[j], a->box);
        double dz = image(zi - a->z[j], a->box);
        double r2 = dx * dx + dy * dy + dz * dz + (double)(j == i) * reach2;
        r2 = r2 < reach2 ? r2 : reach2;
        double i2 = 1.0 / r2, i6 = i2 * i2 * i2;
        double r = sqrt(r2);
        double f = 24.0 * i6 * (2.0 * i6 - 1.0) * i2 - edge_slope / r;
        fx += f * dx;
        fy += f * dy;
        fz += f * dz;
        potential += 4.0 * i6 * (i6 - 1.0) - edge_potential + (r - reach) * edge_slope;
    }
    a->fx[i] = fx;
    a->fy[i] = fy;
    a->fz[i] = fz;
    a->potential[i] = 0.5 * potential;
}

static void kick(const struct atoms *a, long i)
{
    a->vx[i] += 0.5 * TIME_STEP * a->fx[i];
    a->vy[i] += 0.5 * TIME_STEP * a->fy[i];
    a->vz[i] += 0.5 * TIME_STEP * a->fz[i];
}

static double wrap(double position, double box)
{
    return position - box * floor(position / box);
}

static void drift(const struct atoms *a, long i)
{
    a->x[i] = wrap(a->x[i] + TIME_STEP * a->vx[i], a->box);
    a->y[i] = wrap(a->y[i] + TIME_STEP * a->vy[i], a->box);
    a->z[i] = wrap(a->z[i] + TIME_STEP * a->vz[i], a->box);
}

static double energy_of(const struct atoms *a, long i)
{
    double v2 = a->vx[i] * a->vx[i] + a->vy[i] * a->vy[i] + a->vz[i] * a->vz[i];
    return 0.5 * v2 + a->potential[i];
}

/* One step, four barriers; gives the total energy. */
static double step(const struct atoms *a)
{
    double energy = 0.0;
#pragma omp parallel
    {
#pragma omp for schedule(static)
        for (long i = 0; i < a->count; i++) {
            kick(a, i);
            drift(a, i);
        }
#pragma omp for schedule(static)
        for (long i = 0; i < a->count; i++)
            force_on(a, i);
#pragma omp for schedule(static)
        for (long i = 0; i < a->count; i++)
            kick(a, i);
#pragma omp for schedule(static) reduction(+ : energy)
        for (long i = 0; i < a->count; i++)
            energy += energy_of(a, i);
    }
    return energy;
}

static void step_serial(const struct atoms *a)
{
    for (long i = 0; i < a->count; i++) {
        kick(a, i);
        drift(a, i);
    }
    for (long i = 0; i < a->count; i++)
        force_on(a, i);
    for (long i = 0; i < a->count; i++)
        kick(a, i);
}

static void check_against_serial(struct workload *w, const struct atoms *a, long steps)
{
    struct atoms reference = new_atoms(a->count);
    double worst = 0.0;
    for (long i = 0; i < reference.count; i++)
        force_on(&reference, i);
    for (long s = 0; s < steps; s++)
        step_serial(&reference);
    for (long i = 0; i < a->count; i++) {
        worst = fmax(worst, fabs(image(a->x[i] - reference.x[i], a->box)));
        worst = fmax(worst, fabs(image(a->y[i] - reference.y[i], a->box)));
        worst = fmax(worst, fabs(image(a->z[i] - reference.z[i], a->box)));
    }
    workload_at_most(w, "distance from the serial trajectory", worst, 1e-12);
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "md", "Lennard-Jones molecular dynamics, several barriers in each short step",
        (struct workload_range){64, 100000, 216}, (struct workload_range){1, 100000000, 6000});
    struct atoms a = new_atoms(w.size);

#pragma omp parallel for schedule(static)
    for (long i = 0; i < a.count; i++)
        force_on(&a, i);
    double start_energy = 0.0;
    for (long i = 0; i < a.count; i++)
        start_energy += energy_of(&a, i);

    double worst_drift = 0.0;
    for (long s = 0; s < w.steps; s++) {
        double energy = step(&a);
        worst_drift = fmax(worst_drift, fabs(energy - start_energy));
        if (s + 1 == (w.steps < SERIAL_STEPS ? w.steps : SERIAL_STEPS))
            check_against_serial(&w, &a, s + 1);
    }

    double momentum = 0.0, checksum = 0.0;
    for (long i = 0; i < a.count; i++) {
        momentum += a.vx[i] + a.vy[i] + a.vz[i];
        checksum += a.vx[i] * a.vx[i] + a.vy[i] * a.vy[i] + a.vz[i] * a.vz[i];
    }
    workload_at_most(&w, "change of energy per atom", worst_drift / (double)a.count, 0.02);
    workload_at_most(&w, "total momentum per atom", momentum / (double)a.count, 1e-9);
    return workload_end(&w, checksum);
}
