/* The Mandelbrot set: `--steps` pictures, `--size` points wide.
 *
 * The rows of a picture differ in cost by a factor of a hundred, so they are handed out by
 * `schedule(dynamic)`: the program shares its work by itself among however many threads run.
 *
 * Checked: every row was drawn, two rows of each picture are drawn again serially and must agree
 * in every point, and the area of the set in the first picture is the known one.
 */
#include "workload.h"

#define ITERATIONS 256
#define UNDRAWN 0xffff
#define AREA 1.5066

struct view {
    double left, top, spacing;
    long width, height;
};

/* The first view holds the whole set, others lie between it and its seahorse valley. Close views
 * cost more; they come in an order in which any few pictures are a fair sample. */
static struct view view_of(long picture, long width)
{
    double across = 4.0 * pow(0.9, (double)(13 * picture % 32));
    double closeness = 1.0 - across / 4.0;
    struct view v = {.width = width, .height = width * 3 / 4, .spacing = across / (double)width};
    v.left = -0.6 * (1.0 - closeness) - 0.745 * closeness - 0.5 * across;
    v.top = 0.113 * closeness - 0.5 * v.spacing * (double)v.height;
    return v;
}

static uint16_t escape(double cx, double cy)
{
    double x = 0.0, y = 0.0;
    int i = 0;
    for (; i < ITERATIONS; i++) {
        double xx = x * x, yy = y * y;
        if (xx + yy > 4.0)
            break;
        y = 2.0 * x * y + cy;
        x = xx - yy + cx;
    }
    return (uint16_t)i;
}

static void draw_row(struct view v, long row, uint16_t *points)
{
    double cy = v.top + v.spacing * ((double)row + 0.5);
    for (long i = 0; i < v.width; i++)
        points[i] = escape(v.left + v.spacing * ((double)i + 0.5), cy);
}

static void check_row(struct workload *w, struct view v, long row, const uint16_t *picture,
                      uint16_t *scratch)
{
    draw_row(v, row, scratch);
    if (memcmp(scratch, picture + row * v.width, sizeof *scratch * (size_t)v.width) != 0)
        workload_wrong(w, "row %ld differs from the serial one", row);
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "mandelbrot", "pictures of the Mandelbrot set, rows handed out dynamically",
        (struct workload_range){16, 20000, 640}, (struct workload_range){1, 1000000, 40});
    size_t points = (size_t)w.size * (size_t)(w.size * 3 / 4);
    uint16_t *picture = malloc(sizeof *picture * points);
    uint16_t *scratch = malloc(sizeof *scratch * (size_t)w.size);
    if (picture == NULL || scratch == NULL) {
        fprintf(stderr, "mandelbrot: no memory for %zu points; choose a smaller --size\n", points);
        return 2;
    }

    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        struct view v = view_of(s, w.size);
        memset(picture, 0xff, sizeof *picture * points);
#pragma omp parallel for schedule(dynamic, 1)
        for (long row = 0; row < v.height; row++)
            draw_row(v, row, picture + row * v.width);

        long total = 0, inside = 0, undrawn = 0;
#pragma omp parallel for schedule(static) reduction(+ : total, inside, undrawn)
        for (size_t i = 0; i < points; i++) {
            total += picture[i];
            inside += picture[i] == ITERATIONS;
            undrawn += picture[i] == UNDRAWN;
        }
        if (undrawn != 0)
            workload_wrong(&w, "picture %ld: %ld points not drawn", s, undrawn);
        check_row(&w, v, (s * 37 + 1) % v.height, picture, scratch);
        check_row(&w, v, (s * 101 + v.height / 2) % v.height, picture, scratch);
        if (s == 0)
            workload_at_most(&w, "error of the area of the set",
                             (double)inside * v.spacing * v.spacing - AREA,
                             0.03 + 40.0 / (double)points + 4.0 / (double)w.size);
        checksum += (double)total;
    }
    return workload_end(&w, checksum);
}
