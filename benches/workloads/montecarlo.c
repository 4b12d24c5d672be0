/* Monte Carlo: prices an Asian option (on the geometric mean of 16 fixings) for `--steps`
 * different strikes, with `--size` thousand random paths each.
 *
 * Embarrassingly parallel: one long parallel region for each strike and nothing shared in it.
 * The random numbers depend on the path and not on the thread.
 *
 * Checked: every path was drawn once, and each price is within six standard errors of the exact
 * one, which this kind of option has.
 */
#include "workload.h"

#define FIXINGS 16
#define SPOT 100.0
#define RATE 0.03
#define VOLATILITY 0.25
#define YEARS 1.0

static double normal_below(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

/* The price in closed form: the geometric mean of lognormal prices is lognormal. */
static double exact_price(double strike)
{
    double n = FIXINGS;
    double mean = log(SPOT) + (RATE - 0.5 * VOLATILITY * VOLATILITY) * YEARS * (n + 1) / (2 * n);
    double spread = VOLATILITY * sqrt(YEARS * (n + 1) * (2 * n + 1) / (6 * n * n));
    double d2 = (mean - log(strike)) / spread;
    return exp(-RATE * YEARS) * (exp(mean + 0.5 * spread * spread) * normal_below(d2 + spread) -
                                 strike * normal_below(d2));
}

/* The discounted gain of one path. */
static double path_gain(uint64_t path, double strike)
{
    const double pi = 3.14159265358979323846;
    double dt = YEARS / FIXINGS, drift = (RATE - 0.5 * VOLATILITY * VOLATILITY) * dt;
    double scale = VOLATILITY * sqrt(dt);
    double logarithm = 0.0, total = 0.0;
    for (int i = 0; i < FIXINGS; i += 2) {
        uint64_t index = path * FIXINGS + (uint64_t)i;
        double radius = sqrt(-2.0 * log(workload_uniform(index)));
        double angle = 2.0 * pi * workload_uniform(index + 1);
        logarithm += drift + scale * radius * cos(angle);
        total += logarithm;
        logarithm += drift + scale * radius * sin(angle);
        total += logarithm;
    }
    double mean = SPOT * exp(total / FIXINGS);
    return mean > strike ? exp(-RATE * YEARS) * (mean - strike) : 0.0;
}

int main(int argc, char **argv)
{
    struct workload w = workload_begin(
        argc, argv, "montecarlo", "Monte Carlo pricing, one long parallel region for each strike",
        (struct workload_range){1, 1000000, 500}, (struct workload_range){1, 1000000, 8});
    double checksum = 0.0;
    for (long s = 0; s < w.steps; s++) {
        double strike = 80.0 + (double)(s * 7 % 41);
        long paths = 1000 * w.size, drawn = 0;
        uint64_t first = (uint64_t)s * (uint64_t)paths;
        double sum = 0.0, squares = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : sum, squares, drawn)
        for (long i = 0; i < paths; i++) {
            double gain = path_gain(first + (uint64_t)i, strike);
            sum += gain;
            squares += gain * gain;
            drawn++;
        }
        double price = sum / (double)paths;
        double variance = squares / (double)paths - price * price;
        double error = sqrt(fmax(variance, 0.0) / (double)paths);
        if (drawn != paths)
            workload_wrong(&w, "strike %g: %ld paths drawn of %ld", strike, drawn, paths);
        workload_at_most(&w, "distance from the exact price", price - exact_price(strike),
                         6.0 * error);
        checksum += price;
    }
    return workload_end(&w, checksum);
}
