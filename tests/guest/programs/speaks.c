/* Says to mapper what a program of ten pieces of work each second would, by its work or by how long a piece takes.
 * On other than eight CPUs (half of the guest's), of which it is told, pieces that are divided among them take more or less
 * time; whole ones do not. It goes by the clock, since the guest's processors are emulated and show nothing of what
 * is fast.
 *
 *     speaks work|latency divided|computed|whole
 *
 * Computed pieces are divided ones that keep all its CPUs busy for most of the time; for the others it computes little, and
 * on one CPU.
 *
 * Says `ready PID CPUS` at first, and answers each line of input with `done`:
 *
 *     declare LEAST MOST    the CPUs that it can use
 *     serial N              N more serial phases, or fewer */
#include <mapper.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PIECES_PER_S 10.0
#define TELLS_EVERY_S 0.02
/* So long it computes each time: a program that does next to nothing is idle. */
#define LITTLE_S 0.001
#define MUCH_S 0.014
#define MOST_CPUS 16

static int by_work, divided, computed;

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void compute_and_rest(double busy_s)
{
    double until_s = now_s() + busy_s;
    struct timespec rest = {0, (long)(1e9 * (TELLS_EVERY_S - busy_s))};
    while (now_s() < until_s) {}
    nanosleep(&rest, NULL);
}

/* The thread of this number, from 1: it computes while the program has more CPUs than that. */
static void *assist(void *number)
{
    for (;;)
        compute_and_rest(mapper_cpu_count() > (uintptr_t)number ? MUCH_S : 0);
    return NULL;
}

static void *work(void *unused)
{
    double told_s = now_s();
    for (;;) {
        uint32_t cpus = mapper_cpu_count();
        double per_s = PIECES_PER_S * (divided && cpus ? cpus / 8.0 : 1), until_s;
        compute_and_rest(computed ? MUCH_S : LITTLE_S);
        until_s = now_s();
        if (by_work)
            mapper_work_done(per_s * (until_s - told_s));
        else
            mapper_latency(1 / per_s);
        told_s = until_s;
    }
    return unused;
}

int main(int argc, char **argv)
{
    char line[100], word[100];
    pthread_t worker;
    if (argc != 3 || !mapper_is_managed()) return 1;
    by_work = !strcmp(argv[1], "work");
    computed = !strcmp(argv[2], "computed");
    divided = computed || !strcmp(argv[2], "divided");
    if (pthread_create(&worker, NULL, work, NULL)) return 1;
    for (uintptr_t number = 1; computed && number < MOST_CPUS; number++)
        if (pthread_create(&worker, NULL, assist, (void *)number)) return 1;
    printf("ready %d %u\n", (int)getpid(), mapper_cpu_count());
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        int one = 0, other = 0;
        word[0] = 0;
        sscanf(line, "%99s %d %d", word, &one, &other);
        if (!strcmp(word, "declare")) mapper_declare_cpus((uint32_t)one, (uint32_t)other);
        if (!strcmp(word, "serial")) {
            for (; one > 0; one--) mapper_serial_begin();
            for (; one < 0; one++) mapper_serial_end();
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
