/* k-means clustering: `--steps` rounds of Lloyd's algorithm on `--size` thousand points.
 *
 * A round is one parallel loop that assigns every point to its nearest centre and sums up the new
 * centres, a reduction over arrays, and a short serial part. Every few rounds the search begins
 * again from other centres.
 *
 * Checked: every point was counted, the distance to the centres never grows from round to round,
 * and it ends near the spread that the points were made with.
 */
#include "workload.h"

enum { CLUSTERS = 16, DIMENSIONS = 8, ROUNDS = 10 };
#define SPREAD 0.05

/* Corners of a cube in the first four dimensions, so that clusters never overlap. */
static double true_centre(int cluster, int d)
{
    return d < 4 ? (double)(cluster >> d & 1) : 0.5;
}

/* One round: new centres and the mean squared distance to the old ones. */
static double round_of(struct workload *w, long points, const double *point, double *centre)
{
    double sums[CLUSTERS * DIMENSIONS] = {0.0}, distance = 0.0;
    long counts[CLUSTERS] = {0};
#pragma omp parallel for schedule(static) reduction(+ : sums, counts, distance)
    for (long i = 0; i < points; i++) {
        const double *p = point + i * DIMENSIONS;
        double nearest = INFINITY;
        int best = 0;
        for (int c = 0; c < CLUSTERS; c++) {
            double squared = 0.0;
            for (int d = 0; d < DIMENSIONS; d++) {
                double apart = p[d] - centre[c * DIMENSIONS + d];
                squared += apart * apart;
            }
            if (squared < nearest) {
                nearest = squared;
                best = c;
            }
        }
        for (int d = 0; d < DIMENSIONS; d++)
            sums[best * DIMENSIONS + d] += p[d];
        counts[best]++;
        distance += nearest;
    }
    long counted = 0;
    for (int c = 0; c < CLUSTERS; c++) {
        counted += counts[c];
        for (int d = 0; d < DIMENSIONS && counts[c] > 0; d++)
            centre[c * DIMENSIONS + d] = sums[c * DIMENSIONS + d] / (double)counts[c];
    }
    if (counted != points)
        workload_wrong(w, "%ld of %ld points counted", counted, points);
    return distance / (double)points;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "kmeans", "k-means clustering, one reduction over arrays a round",
        (struct workload_range){1, 1000000, 60}, (struct workload_range){1, 10000000, 100});
    long points = w.size * 1000;
    double *point = workload_doubles((size_t)points * DIMENSIONS);
    double centre[CLUSTERS * DIMENSIONS];

#pragma omp parallel for schedule(static)
    for (long i = 0; i < points; i++)
        for (int d = 0; d < DIMENSIONS; d++) {
            double u = workload_uniform((uint64_t)(i * DIMENSIONS + d));
            point[i * DIMENSIONS + d] = true_centre((int)(i % CLUSTERS), d) + SPREAD * (2.0 * u - 1.0);
        }
    /* The points are uniform within `SPREAD` of their centre in each dimension. */
    double spread = DIMENSIONS * SPREAD * SPREAD / 3.0;
    double checksum = 0.0, before = INFINITY;
    for (long s = 0; s < w.steps; s++) {
        if (s % ROUNDS == 0) {
            before = INFINITY;
            for (int i = 0; i < CLUSTERS * DIMENSIONS; i++) {
                double u = workload_uniform((uint64_t)(s * CLUSTERS * DIMENSIONS + i) << 20);
                centre[i] = true_centre(i / DIMENSIONS, i % DIMENSIONS) + 0.6 * (u - 0.5);
            }
        }
        double distance = round_of(&w, points, point, centre);
        if (distance > before * (1.0 + 1e-9))
            workload_wrong(&w, "round %ld: the distance grew from %.9e to %.9e", s, before, distance);
        if (s % ROUNDS == ROUNDS - 1)
            workload_at_most(&w, "error of the spread", distance / spread - 1.0, 0.05);
        before = distance;
        checksum += distance;
    }
    return workload_end(&w, checksum);
}
