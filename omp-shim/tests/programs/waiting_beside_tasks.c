/* Tasks and, but for TASKS_ALONE, what can be cancelled, while threads wait for one another:
 * usage waiting_beside_tasks KIND, where KIND is
 *
 *   tasks            a thread makes 20 tasks of 10 ms within `single`, at whose barrier both carry them out
 *   dependent        the same with dependences, of which two may run at a time
 *   taskloop, ull    the same by a taskloop, over int and unsigned long long
 *   end              the same, at the end of the region
 *   nested           each task makes another one
 *   then             both work for 100 ms in tasks, then, in another region, thread 0 works for 100 ms by itself
 *   again            the same regions, each three times in turn, of 30 ms
 *   barrier          thread 0 works for 100 ms, then all meet at a barrier of a region that can be cancelled
 *   loop, sections   the same at the end of a loop, or of sections, that can be cancelled
 *
 * each in regions of two threads. Work is slept rather than computed, so that one CPU suffices. */
#include <omp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int is_it, never;

static void work(void)
{
    usleep(10000);
}

static void tasks(int count)
{
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < count; i++) {
#pragma omp task
        work();
    }
}

static void alone(int microseconds)
{
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) usleep(microseconds);
#pragma omp barrier
    }
}

static int is(const char *kind, const char *name)
{
    if (strcmp(kind, name)) return 0;
    is_it = 1;
    return 1;
}

int main(int argc, char **argv)
{
    const char *kind = argc > 1 ? argv[1] : "tasks";
    never = argc > 100;
    /* The threads of the pool wait for the next region, too. */
#pragma omp parallel num_threads(2)
    {
    }
    if (is(kind, "tasks")) tasks(20);
    if (is(kind, "dependent")) {
        char chain[2];
#pragma omp parallel num_threads(2)
#pragma omp single
        for (int i = 0; i < 20; i++) {
#pragma omp task depend(inout : chain[i % 2])
            work();
        }
    }
    if (is(kind, "taskloop")) {
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp taskloop grainsize(1) nogroup
        for (int i = 0; i < 20; i++) work();
    }
    if (is(kind, "ull")) {
        unsigned long long end = 20 * argc / argc;
#pragma omp parallel num_threads(2)
#pragma omp single
#pragma omp taskloop grainsize(1) nogroup
        for (unsigned long long i = 0; i < end; i++) work();
    }
    if (is(kind, "end")) {
#pragma omp parallel num_threads(2)
#pragma omp single nowait
        for (int i = 0; i < 20; i++) {
#pragma omp task
            work();
        }
    }
    if (is(kind, "nested")) {
#pragma omp parallel num_threads(2)
#pragma omp single
        for (int i = 0; i < 10; i++) {
#pragma omp task
            {
#pragma omp task
                work();
                work();
            }
        }
    }
    if (is(kind, "then")) {
        tasks(20);
        alone(100000);
    }
    if (is(kind, "again"))
        for (int i = 0; i < 3; i++) {
            tasks(6);
            alone(30000);
        }
#ifndef TASKS_ALONE
    if (is(kind, "barrier")) {
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) usleep(100000);
#pragma omp barrier
            if (never) {
#pragma omp cancel parallel
            }
        }
    }
    if (is(kind, "loop")) {
#pragma omp parallel num_threads(2)
        {
#pragma omp for schedule(static)
            for (int i = 0; i < 2; i++) {
                if (i == 0) usleep(100000);
                if (never) {
#pragma omp cancel for
                }
            }
            /* Else its end would be that of the region. */
#pragma omp single
            {
            }
        }
    }
    if (is(kind, "sections")) {
#pragma omp parallel num_threads(2)
        {
#pragma omp sections
            {
#pragma omp section
                {
                    usleep(100000);
                    if (never) {
#pragma omp cancel sections
                    }
                }
#pragma omp section
                work();
            }
#pragma omp single
            {
            }
        }
    }
#endif
    return !is_it;
}
