/* Makes a child by the bare system call within its first region, while every thread that starts is held up before the C
 * library has it ready: a filter has another thread of this program asked about a call that each begins with. The child
 * calls setuid, for which the C library waits for threads that are being started. Prints "right". */
#define _GNU_SOURCE
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int asked = -1;

static void *hold_up(void *unused)
{
    struct seccomp_notif question;
    while (__atomic_load_n(&asked, __ATOMIC_ACQUIRE) < 0) usleep(1000);
    for (;;) {
        question = (struct seccomp_notif){0};
        if (ioctl(asked, SECCOMP_IOCTL_NOTIF_RECV, &question)) continue;
        usleep(300000);
        struct seccomp_notif_resp answer = {.id = question.id, .flags = SECCOMP_USER_NOTIF_FLAG_CONTINUE};
        ioctl(asked, SECCOMP_IOCTL_NOTIF_SEND, &answer);
    }
    return unused;
}

static int filter(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_robust_list, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof code[0], code};
    if (syscall(SYS_prctl, PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) return -1;
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static int fork_by_hand(void)
{
    int status = -1;
    pid_t pid = syscall(SYS_fork);
    if (!pid) _exit(setuid(getuid()) != 0);
    for (int i = 0; i < 200 && !waitpid(pid, &status, WNOHANG); i++) usleep(50000);
    if (status == -1) kill(pid, SIGKILL), waitpid(pid, NULL, 0);
    return status;
}

int main(void)
{
    pthread_t other;
    int wrong = 0;
    if (pthread_create(&other, NULL, hold_up, NULL)) return 1;
    int listener = filter();
    if (listener < 0) return perror("seccomp"), 1;
    __atomic_store_n(&asked, listener, __ATOMIC_RELEASE);
#pragma omp parallel reduction(+ : wrong)
    if (omp_get_thread_num() == 0) wrong += fork_by_hand() != 0;
    puts(wrong ? "hung" : "right");
    return 0;
}
