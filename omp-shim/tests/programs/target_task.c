/* Tasks as clang makes them for `target nowait` where code for devices is compiled, too: allocated by a function of
 * their own, which is called here by its prototype. Prints whether each task ran once, on the host. */
#include <omp.h>
#include <stdint.h>
#include <stdio.h>

enum { TASKS = 50, ROUNDS = 20, TIED = 1, NO_DEVICE = -1 };

typedef struct task {
    void *shareds;
    int32_t (*routine)(int32_t, struct task *);
    int32_t part;
    void *data[2];
    int number;
} task;

int32_t __kmpc_global_thread_num(void *);
task *__kmpc_omp_target_task_alloc(void *, int32_t, int32_t, size_t, size_t,
                                   int32_t (*)(int32_t, task *), int64_t);
int32_t __kmpc_omp_task(void *, int32_t, task *);

static struct {
    int32_t reserved, flags, reserved_2, reserved_3;
    const char *source;
} location = {.flags = 2, .source = ";target_task.c;main;1;1;;"};

static int ran[TASKS];

static int32_t run(int32_t thread, task *self)
{
    (void)thread;
#pragma omp atomic
    ran[self->number]++;
    return 0;
}

int main(void)
{
    int wrong = 0;
    for (int round = 1; round <= ROUNDS; round++) {
#pragma omp parallel
#pragma omp single
        for (int i = 0; i < TASKS; i++) {
            int32_t thread = __kmpc_global_thread_num(&location);
            task *made = __kmpc_omp_target_task_alloc(&location, thread, TIED, sizeof *made, 0, run, NO_DEVICE);
            made->number = i;
            __kmpc_omp_task(&location, thread, made);
        }
        for (int i = 0; i < TASKS; i++)
            wrong += ran[i] != round;
    }
    printf("%s\n", wrong ? "wrong" : "right");
    return 0;
}
