/* Long jumps and contexts of the program's own within members. */
#define _GNU_SOURCE
#include "suite.h"
#include <setjmp.h>
#include <ucontext.h>
static void coroutine(int *count, ucontext_t *self, ucontext_t *back)
{
    for (int i = 0; i < 5; i++) {
        ++*count;
        swapcontext(self, back);
    }
}
static struct own {
    ucontext_t self, back;
    int count;
    char stack[65536];
} own[4];
static void entry(int me) { coroutine(&own[me].count, &own[me].self, &own[me].back); }
static omp_lock_t lock;
static __attribute__((noinline)) void back(jmp_buf *place, int turns) { longjmp(*place, turns); }
static __attribute__((noinline)) int jumps(void)
{
    jmp_buf place;
    volatile int turns = 0;
    if (setjmp(place) < 5) {
        turns = turns + 1;
        omp_set_lock(&lock);
        omp_unset_lock(&lock);
        back(&place, turns);
    }
    return turns;
}
int main(void)
{
    omp_init_lock(&lock);
    while (more_rounds()) {
#pragma omp parallel num_threads(4)
        {
            int me = omp_get_thread_num();
            CHECK(jumps() == 5);
            struct own *mine = &own[me];
            mine->count = 0;
            getcontext(&mine->self);
            mine->self.uc_stack.ss_sp = mine->stack;
            mine->self.uc_stack.ss_size = sizeof mine->stack;
            mine->self.uc_link = NULL;
            makecontext(&mine->self, (void (*)(void))entry, 1, me);
            for (int i = 1; i <= 5; i++) {
                swapcontext(&mine->back, &mine->self);
                CHECK(mine->count == i);
#pragma omp barrier
            }
        }
    }
    return suite_result();
}
