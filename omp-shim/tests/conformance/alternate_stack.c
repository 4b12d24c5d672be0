/* Handlers on a stack of their own, and a jump out of one. */
#define _GNU_SOURCE
#include "suite.h"
#include <setjmp.h>
#include <signal.h>
static __thread sigjmp_buf place;
static void handler(int number) { siglongjmp(place, number); }
int main(void)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    static char stacks[4][65536];
    while (a_few_rounds()) {
        int caught = 0;
#pragma omp parallel num_threads(4) reduction(+ : caught)
        {
            stack_t stack = {.ss_sp = stacks[omp_get_thread_num()], .ss_size = 65536}, now;
            sigaltstack(&stack, NULL);
#pragma omp barrier
            sigaltstack(NULL, &now);
            CHECK(now.ss_sp == stack.ss_sp && now.ss_size == 65536);
            if (sigsetjmp(place, 1) == 0)
                *(volatile int *)8 = 1;
            else
                caught++;
#pragma omp barrier
            caught += 10;
            sigaltstack(NULL, &now);
            CHECK(now.ss_sp == stack.ss_sp);
        }
        CHECK(caught == 44);
    }
    return suite_result();
}
