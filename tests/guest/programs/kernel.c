/* A coarse OpenMP kernel: each iteration has a serial part and one parallel region, together `--work` steps.
 *
 *     kernel [--work STEPS] [--serial PERCENT] [--uneven PERCENT] [--every SECONDS] FILE
 *
 * --uneven: how much longer than the mean the last piece of the region is, the first is as much shorter.
 * --every: after so many seconds the serial part is left out, after as many it is back, and so on.
 *
 * Runs until it is ended, and checks that each iteration has done its steps. */
#include "progress.h"

/* A multiple of most team sizes, so that a static schedule is even. */
enum { PIECES = 240 };

int main(int argc, char **argv)
{
    double work = option(argc, argv, "--work", 1e8);
    double serial = option(argc, argv, "--serial", 0) / 100;
    double uneven = option(argc, argv, "--uneven", 0) / 100;
    double every_s = option(argc, argv, "--every", 0);
    struct progress *progress = progress_of(argc, argv);
    double start_s = now_s();
    volatile uint64_t sink = 0;
    for (;;) {
        int without = every_s > 0 && (long)((now_s() - start_s) / every_s) % 2 == 1;
        double part = without ? 0 : serial;
        long alone = (long)(work * part);
        sink = churn(sink, alone);
        double piece = work * (1 - part) / PIECES;
        long steps = 0;
        uint64_t sum = 0;
#pragma omp parallel for schedule(static) reduction(+ : steps, sum)
        for (int i = 0; i < PIECES; i++) {
            double slope = 2.0 * i / (PIECES - 1) - 1;
            long these = (long)(piece * (1 + uneven * slope));
            sum += churn((uint64_t)i, these);
            steps += these;
        }
        sink += sum;
        /* Pieces are whole steps. */
        if (steps + alone > (long)work || steps + alone < (long)work - PIECES - 1) {
            fprintf(stderr, "kernel: %ld steps of %ld\n", steps + alone, (long)work);
            return 1;
        }
        one_more(progress);
    }
}
