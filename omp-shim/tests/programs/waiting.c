/* Threads that wait for one another: usage waiting KIND, where KIND is
 *
 *   barrier   thread 0 works for 100 ms, then all meet at a barrier
 *   loop      the same at the end of a dynamic loop
 *   region    the same at the end of the region
 *   reduction the same at the end of a loop with a reduction
 *   tree      the same among six threads, of which the first two are waited for: more than libomp combines by atomics
 *   copy      thread 0 comes 100 ms late to a `single copyprivate`
 *   cancelled thread 0 works for 100 ms and cancels the region, in which the other one waits (OMP_CANCELLATION)
 *   nested    as barrier, in a region within that of one of two threads, which the other one's end waits for
 *   teams     as barrier, in the region of each of two teams, one after the other
 *   balanced  all work for 100 ms, slept rather than computed, so that one CPU suffices
 *   many      100000 barriers with nothing between them
 *   series    40 regions, in each of which all work for 5 ms
 *
 * each in a region of two threads unless said otherwise; cancelled, nested and teams are there if NOT_VIRTUAL is
 * defined, as virtual teams do not serve the first and the last. Prints the nanoseconds that this took. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "barrier";
    /* The threads of the pool wait for the next region, too. */
#pragma omp parallel num_threads(2)
    {
    }
    long long begin = now_ns();
    if (!strcmp(kind, "barrier")) {
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) usleep(100000);
#pragma omp barrier
        }
    } else if (!strcmp(kind, "loop")) {
#pragma omp parallel num_threads(2)
        {
#pragma omp for schedule(dynamic)
            for (int i = 0; i < 2; i++)
                if (i == 0) usleep(100000);
#pragma omp single
            {
            }
        }
    } else if (!strcmp(kind, "region")) {
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 1) usleep(100000);
    } else if (!strcmp(kind, "reduction")) {
        long sum = 0;
#pragma omp parallel num_threads(2)
#pragma omp for schedule(static) reduction(+ : sum)
        for (int i = 0; i < 2; i++) {
            if (i == 0) usleep(100000);
            sum += i;
        }
        if (sum != 1) return 1;
    } else if (!strcmp(kind, "tree")) {
        long sum = 0;
#pragma omp parallel num_threads(6)
#pragma omp for schedule(static) reduction(+ : sum)
        for (int i = 0; i < 6; i++) {
            if (i < 2) usleep(25000);
            sum += i;
        }
        if (sum != 15) return 1;
    } else if (!strcmp(kind, "copy")) {
        int copied = 0;
#pragma omp parallel num_threads(2) firstprivate(copied)
        {
            if (omp_get_thread_num() == 0) usleep(100000);
#pragma omp single copyprivate(copied)
            copied = 7;
            if (copied != 7) _exit(1);
        }
#ifdef NOT_VIRTUAL
    } else if (!strcmp(kind, "cancelled")) {
        if (!omp_get_cancellation()) return 1;
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) {
                usleep(100000);
#pragma omp cancel parallel
            }
#pragma omp barrier
            _exit(1);
        }
    } else if (!strcmp(kind, "nested")) {
        omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2)
        if (omp_get_thread_num() == 0) {
#pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num() == 0) usleep(100000);
#pragma omp barrier
            }
        }
    } else if (!strcmp(kind, "teams")) {
#pragma omp teams num_teams(2)
        {
#pragma omp parallel num_threads(2)
            {
                if (omp_get_thread_num() == 0) usleep(50000);
#pragma omp barrier
            }
        }
#endif
    } else if (!strcmp(kind, "balanced")) {
#pragma omp parallel num_threads(2)
        {
            usleep(100000);
#pragma omp barrier
        }
    } else if (!strcmp(kind, "series")) {
        for (int i = 0; i < 40; i++) {
#pragma omp parallel num_threads(2)
            usleep(5000);
        }
    } else {
#pragma omp parallel num_threads(2)
        for (int i = 0; i < 100000; i++) {
#pragma omp barrier
        }
    }
    printf("%lld\n", now_ns() - begin);
    return 0;
}
