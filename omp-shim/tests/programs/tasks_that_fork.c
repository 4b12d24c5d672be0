/* Tasks that fork. Their children end, begin another program, make regions of their own, or return from the task, which comes to
 * no end in libgomp either: these are killed. */
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static int wrong;

static void be(int kind)
{
    if (kind == 0) _exit(7);
    if (kind == 1) execl("/bin/sh", "sh", "-c", "exit 7", (char *)0);
    if (kind == 2) {
        int sum = 0;
#pragma omp parallel for reduction(+ : sum)
        for (int i = 0; i < 100; i++) sum += i;
        _exit(sum == 4950 ? 7 : 1);
    }
}

static void look_after(pid_t child, int kind)
{
    int status, is_right;
    if (kind == 3) {
        usleep(20000);
        kill(child, SIGKILL);
    }
    if (waitpid(child, &status, 0) != child) abort();
    is_right = kind == 3 ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 7;
    if (!is_right) __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

static void fork_as(int kind)
{
    pid_t child = fork();
    if (child < 0) abort();
    if (child == 0)
        be(kind);
    else
        look_after(child, kind);
}

/* The child of a task that is executed at once is the only thread there that goes on. */
static void fork_at_once(void)
{
    static int *others;
    others = mmap(0, sizeof *others, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
#pragma omp parallel
    {
        if (omp_get_thread_num() == 0) {
#pragma omp task if (0)
            {
                pid_t child = fork();
                usleep(3000);
                if (child > 0) look_after(child, 3);
            }
        }
        if (getpid() != parent) {
            if (omp_get_thread_num() != 0) *others = 1;
            pause();
        }
    }
    wrong += *others;
}

int main(void)
{
#pragma omp parallel
    {
#pragma omp single
        for (int i = 0; i < 16; i++) {
#pragma omp task
            fork_as(i % 4);
        }
#pragma omp single
        {
            for (int i = 0; i < 16; i++) {
#pragma omp task
                fork_as(i % 4);
            }
#pragma omp taskwait
        }
    }
    fork_at_once();
    puts(wrong ? "wrong" : "right");
    return 0;
}
