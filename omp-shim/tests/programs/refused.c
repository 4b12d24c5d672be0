/* Has the kernel refuse, with EPERM, calls that the shim makes beside the C library and the runtime. With an argument it
 * does so and becomes the program that the arguments name; else after its first region. Prints "right". */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <omp.h>
#include <stddef.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSED(number)                                                                            \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static int refuse(void)
{
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSED(SYS_sched_setaffinity), REFUSED(SYS_membarrier), REFUSED(SYS_futex_waitv), REFUSED(SYS_mincore),
        REFUSED(SYS_madvise), REFUSED(SYS_gettid), REFUSED(SYS_sched_yield), REFUSED(SYS_kill),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
           syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program);
}

int main(int argc, char **argv)
{
    const char *preload = getenv("THEN_PRELOAD");
    if (argc > 1) {
        if (preload) setenv("LD_PRELOAD", preload, 1);
        unsetenv("THEN_PRELOAD");
        return refuse() ? 2 : execv(argv[1], argv + 1);
    }
    int good = 1;
    for (int round = 0; round < 200; round++) {
        long sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp for schedule(dynamic, 2)
            for (int i = 0; i < 200; i++) sum += i;
#pragma omp barrier
#pragma omp critical
            sum += 1;
        }
        good &= sum >= 19901;
        if (round == 0 && !getenv("REFUSED") && refuse()) return 3;
    }
    puts(good ? "right" : "wrong");
    return 0;
}
