/* Gives up all system calls but a few after its first region, and begins more of them, with loops and critical sections
 * that its threads have not met before. Any other system call ends the program. Prints "right". */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <omp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define ALLOWED(number)                                                                            \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

int main(void)
{
    int members = 0;
#pragma omp parallel reduction(+ : members)
    members++;
    struct sock_filter instructions[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        ALLOWED(SYS_futex), ALLOWED(SYS_sched_yield), ALLOWED(SYS_clock_gettime),
        ALLOWED(SYS_mmap), ALLOWED(SYS_munmap), ALLOWED(SYS_mprotect), ALLOWED(SYS_madvise), ALLOWED(SYS_brk),
        /* Their threads' making, where the runtime lets some end. */
        ALLOWED(SYS_clone), ALLOWED(SYS_clone3), ALLOWED(SYS_set_robust_list), ALLOWED(SYS_rseq),
        ALLOWED(SYS_rt_sigprocmask), ALLOWED(SYS_exit),
        ALLOWED(SYS_write), ALLOWED(SYS_newfstatat), ALLOWED(SYS_fstat), ALLOWED(SYS_exit_group),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof instructions / sizeof *instructions, instructions};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return 2;
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program)) return 3;

    int good = members > 0;
    for (int round = 0; round < 300; round++) {
        long sum = 0;
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp for schedule(dynamic, 2)
            for (int i = 0; i < 200; i++) {
                for (volatile int k = 0; k < 1000; k++) continue;
                sum += i;
            }
#pragma omp barrier
#pragma omp critical
            sum += 1;
        }
        good &= sum >= 19901;
    }
    puts(good ? "right" : "wrong");
    return 0;
}
