// What the launcher's tests run: a program that prints exactly what reaches it.
//
//   probe signals      blocks every signal and prints each as it comes ("signal 2 from 77 code 0
//                      value 5"), until its input ends
//   probe default      prints "ready" and waits for a signal or the end of its input
//   probe die N        dies by signal N, without a core
//   probe close        closes every descriptor and exits with 7
//   probe leave        leaves the process group, then as "signals"
//   probe hit-parent   sends SIGTERM to its parent and its own group, then exits with 6

#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

static int tell_signals(void) {
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    int signals = signalfd(-1, &all, 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    struct pollfd wait[2] = {{.fd = signals, .events = POLLIN}, {.fd = 0, .events = POLLIN}};
    for (;;) {
        poll(wait, 2, -1);
        if (wait[0].revents) {
            struct signalfd_siginfo info;
            if (read(signals, &info, sizeof info) == sizeof info) {
                printf("signal %u from %u code %d value %d\n", info.ssi_signo, info.ssi_pid,
                       info.ssi_code, info.ssi_int);
                // Once the test has gone, each line would bring a SIGPIPE and so another line.
                if (fflush(stdout)) return 1;
            }
        } else if (wait[1].revents) {
            return 0;
        }
    }
}

int main(int count, char **words) {
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "signals")) {
        return tell_signals();
    }
    if (!strcmp(what, "leave")) {
        setpgid(0, 0);
        return tell_signals();
    }
    if (!strcmp(what, "default")) {
        char byte;
        printf("ready %d\n", getpid());
        fflush(stdout);
        return read(0, &byte, 1) > 0;
    }
    if (!strcmp(what, "die") && count > 2) {
        setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
        kill(getpid(), atoi(words[2]));
    }
    if (!strcmp(what, "close")) {
        for (int number = 0; number < 1024; number++) {
            close(number);
        }
        usleep(50000);
        return 7;
    }
    if (!strcmp(what, "hit-parent")) {
        signal(SIGTERM, SIG_IGN);
        kill(getppid(), SIGTERM);
        kill(0, SIGTERM);
        usleep(50000);
        return 6;
    }
    return 99;
}
