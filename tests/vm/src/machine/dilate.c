/* Preloaded into QEMU: makes the guest a slow but consistent machine.
 *
 * The guest's virtual CPUs share fewer CPUs of the host. Emulation alone gives them unequal shares of these, which change
 * with what the others do, while the guest's clock runs at the host's pace. With this library
 *
 * 1. the clock that QEMU reads runs VM_DILATION times slower than the host's, and QEMU sleeps as many times longer; once
 *    the guest has booted it runs by the CPU time that QEMU gets, so that it stands still while the host does other work;
 * 2. so does the time-stamp counter, which QEMU reads without asking the C library: reading it is made to fail, and the
 *    handler of that signal answers from the slowed clock;
 * 3. virtual CPUs have equal shares: each is pinned to one CPU of the host, by turns, and turns are short;
 * 4. an idle virtual CPU uses its share, too, so that the others get no more than theirs. That begins with SIGURG, which
 *    says that the guest has booted: before it would only delay the boot.
 *
 * For QEMU 7.2 on x86-64 with `-accel tcg,thread=multi` and `-name NAME,debug-threads=on`, which names the threads of
 * virtual CPUs. Nothing is checked that a newer QEMU could do otherwise: the self-test of `cargo xtask vm live` fails then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    SECOND_NS = 1000000000,
    /* The slice of each thread in the kernel's fair class (Linux 6.12 and later), the smallest that it takes. */
    SLICE_NS = 100000,
    /* The kernel looks whether a slice is over at its own tick, some milliseconds, and whenever a thread wakes up on the
     * CPU: so on each CPU one does, this often. */
    TURN_NS = 250000,
    /* For how long an idle virtual CPU watches for a signal before it tests its condition, and how often it looks before it
     * reads the clock. */
    IDLE_NS = 2000000,
    LOOKS = 5000,
    VIRTUAL_CPUS = 256,
    /* Cycles of the guest's time-stamp counter in a nanosecond of the guest. */
    CYCLES_PER_NS = 2,
    CLOCKS = CLOCK_BOOTTIME + 1,
};

static double dilation = 1.0;
static int64_t start_ns[CLOCKS];
static cpu_set_t host_cpus;
static _Atomic int booted;
static int64_t booted_at_ns, booted_cpu_ns;
static _Atomic int64_t latest_ns;

static struct virtual_cpu {
    _Atomic(pthread_cond_t *) waits_for;
    _Atomic unsigned signals; /* that reached it while it waited */
} virtual_cpus[VIRTUAL_CPUS];
static _Thread_local struct virtual_cpu *virtual_cpu;

/* ---- 1. The clock ---- */

/* Not the C library's function, which is the one below, and which would read the time-stamp counter. */
static int64_t host_ns(clockid_t clock)
{
    struct timespec now = {0, 0};
    syscall(SYS_clock_gettime, clock, &now);
    return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

/* Nanoseconds of the guest since the start. Those of the host's clock up to SIGURG, those of CPU time since. */
static int64_t elapsed_ns(void)
{
    double host = dilation * (double)CPU_COUNT(&host_cpus);
    int64_t now = atomic_load(&booted)
                      ? booted_at_ns + (int64_t)((double)(host_ns(CLOCK_PROCESS_CPUTIME_ID) - booted_cpu_ns) / host)
                      : (int64_t)((double)(host_ns(CLOCK_MONOTONIC) - start_ns[CLOCK_MONOTONIC]) / dilation);
    /* What other threads have used is known a moment later: the sum need not be the same wherever it is read. */
    int64_t latest = atomic_load(&latest_ns);
    while (latest < now && !atomic_compare_exchange_weak(&latest_ns, &latest, now))
        continue;
    return latest < now ? now : latest;
}

static int64_t guest_ns(clockid_t clock)
{
    return start_ns[clock] + elapsed_ns();
}

static void on_booted(int signal_number)
{
    (void)signal_number;
    if (atomic_load(&booted))
        return;
    booted_at_ns = elapsed_ns();
    booted_cpu_ns = host_ns(CLOCK_PROCESS_CPUTIME_ID);
    atomic_store(&booted, 1);
}

static struct timespec timespec_of(double ns)
{
    /* More than a century is as good as for ever. */
    int64_t whole = ns > 4e18 ? (int64_t)4e18 : (int64_t)ns;
    return (struct timespec){whole / SECOND_NS, whole % SECOND_NS};
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
    /* CPU time and the like is the host's. */
    if (clock < 0 || clock >= CLOCKS || start_ns[clock] == 0)
        return (int)syscall(SYS_clock_gettime, clock, now);
    int64_t ns = guest_ns(clock);
    *now = (struct timespec){ns / SECOND_NS, ns % SECOND_NS};
    return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    (void)zone;
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    *now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
    return 0;
}

time_t time(time_t *now)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    if (now != NULL)
        *now = time.tv_sec;
    return time.tv_sec;
}

int ppoll(struct pollfd *files, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec longer;
    if (timeout != NULL)
        longer = timespec_of(dilation * ((double)timeout->tv_sec * SECOND_NS + (double)timeout->tv_nsec));
    return (int)syscall(SYS_ppoll, files, count, timeout != NULL ? &longer : NULL, mask, _NSIG / 8);
}

int poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
    struct timespec timeout = timespec_of(1e6 * (double)timeout_ms);
    return ppoll(files, count, timeout_ms < 0 ? NULL : &timeout, NULL);
}

/* ---- 2. The time-stamp counter ---- */

static void answer_rdtsc(int signal_number, siginfo_t *info, void *context)
{
    (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const unsigned char *code = (const unsigned char *)registers[REG_RIP];
    int is_rdtsc = code[0] == 0x0f && code[1] == 0x31;
    int is_rdtscp = code[0] == 0x0f && code[1] == 0x01 && code[2] == 0xf9;
    if (!is_rdtsc && !is_rdtscp) {
        /* An error of QEMU's: the instruction fails again, and ends it. */
        signal(signal_number, SIG_DFL);
        return;
    }
    uint64_t cycles = CYCLES_PER_NS * (uint64_t)guest_ns(CLOCK_MONOTONIC);
    registers[REG_RAX] = (uint32_t)cycles;
    registers[REG_RDX] = (uint32_t)(cycles >> 32);
    if (is_rdtscp)
        registers[REG_RCX] = 0;
    registers[REG_RIP] += is_rdtscp ? 3 : 2;
}

/* ---- 3. Equal shares ---- */

static void give_up(const char *what)
{
    fprintf(stderr, "dilate: %s: %s\n", what, strerror(errno));
    _exit(1);
}

/* The kernel's; its header and the C library's cannot be included together. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t slice_ns, deadline_ns, period_ns;
};

/* For the calling thread and those that it starts. */
static void shorten_slice(void)
{
    struct scheduling attributes = {.size = sizeof attributes};
    if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0)
        give_up("sched_getattr");
    attributes.slice_ns = SLICE_NS;
    if (syscall(SYS_sched_setattr, 0, &attributes, 0) != 0)
        give_up("sched_setattr with a slice, which takes Linux 6.12");
}

static void pin_to(int number)
{
    int left = number % CPU_COUNT(&host_cpus);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &host_cpus) || left-- > 0)
        cpu++;
    cpu_set_t only;
    CPU_ZERO(&only);
    CPU_SET(cpu, &only);
    if (sched_setaffinity(0, sizeof only, &only) != 0)
        give_up("sched_setaffinity");
}

static void *end_turns(void *host_cpu)
{
    pin_to((int)(intptr_t)host_cpu);
    prctl(PR_SET_TIMERSLACK, 1UL);
    for (;;) {
        struct timespec turn = {0, TURN_NS};
        syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, &turn, NULL);
    }
    return NULL;
}

/* QEMU names each of its threads at the start of it. */
int pthread_setname_np(pthread_t thread, const char *name)
{
    int number;
    char end;
    if (pthread_equal(thread, pthread_self()) && sscanf(name, "CPU %d/TC%c", &number, &end) == 2) {
        if (number < 0 || number >= VIRTUAL_CPUS) {
            errno = ERANGE;
            give_up(name);
        }
        virtual_cpu = &virtual_cpus[number];
        pin_to(number);
    }
    static int (*set_name)(pthread_t, const char *);
    if (set_name == NULL)
        *(void **)&set_name = dlsym(RTLD_NEXT, "pthread_setname_np");
    return set_name(thread, name);
}

/* ---- 4. Idle virtual CPUs ---- */

/* A halted virtual CPU waits here. It must not take QEMU's big lock to see whether it may go on: others would wait for it
 * while it waits for its turn. So it watches for the signal that ends its wait, and tests its condition again after a
 * while, which it may do at any time. */
int pthread_cond_wait(pthread_cond_t *restrict condition, pthread_mutex_t *restrict mutex)
{
    static int (*wait)(pthread_cond_t *, pthread_mutex_t *);
    if (virtual_cpu != NULL && atomic_load(&booted)) {
        unsigned before = virtual_cpu->signals;
        atomic_store(&virtual_cpu->waits_for, condition);
        pthread_mutex_unlock(mutex);
        int64_t begun = host_ns(CLOCK_MONOTONIC);
        while (virtual_cpu->signals == before && host_ns(CLOCK_MONOTONIC) - begun < IDLE_NS)
            for (int i = 0; i < LOOKS && virtual_cpu->signals == before; i++)
                continue;
        atomic_store(&virtual_cpu->waits_for, NULL);
        return pthread_mutex_lock(mutex);
    }
    if (wait == NULL)
        *(void **)&wait = dlvsym(RTLD_NEXT, "pthread_cond_wait", "GLIBC_2.3.2");
    return wait(condition, mutex);
}

static void tell_virtual_cpus(pthread_cond_t *condition)
{
    for (int i = 0; i < VIRTUAL_CPUS; i++)
        if (atomic_load(&virtual_cpus[i].waits_for) == condition)
            atomic_fetch_add(&virtual_cpus[i].signals, 1);
}

int pthread_cond_signal(pthread_cond_t *condition)
{
    static int (*next)(pthread_cond_t *);
    if (next == NULL)
        *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_signal", "GLIBC_2.3.2");
    tell_virtual_cpus(condition);
    return next(condition);
}

int pthread_cond_broadcast(pthread_cond_t *condition)
{
    static int (*next)(pthread_cond_t *);
    if (next == NULL)
        *(void **)&next = dlvsym(RTLD_NEXT, "pthread_cond_broadcast", "GLIBC_2.3.2");
    tell_virtual_cpus(condition);
    return next(condition);
}

/* ---- The start ---- */

__attribute__((constructor)) static void begin(void)
{
    const char *value = getenv("VM_DILATION");
    if (value == NULL)
        return;
    unsetenv("LD_PRELOAD");
    const clockid_t slowed[] = {CLOCK_REALTIME,        CLOCK_MONOTONIC,        CLOCK_MONOTONIC_RAW,
                                CLOCK_REALTIME_COARSE, CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME};
    for (size_t i = 0; i < sizeof slowed / sizeof *slowed; i++)
        start_ns[slowed[i]] = host_ns(slowed[i]);
    dilation = strtod(value, NULL);
    if (sched_getaffinity(0, sizeof host_cpus, &host_cpus) != 0)
        give_up("sched_getaffinity");

    struct sigaction on_signal = {.sa_handler = on_booted, .sa_flags = SA_RESTART};
    struct sigaction on_rdtsc = {.sa_sigaction = answer_rdtsc, .sa_flags = SA_SIGINFO | SA_NODEFER};
    sigaction(SIGURG, &on_signal, NULL);
    sigaction(SIGSEGV, &on_rdtsc, NULL);
    if (prctl(PR_SET_TSC, PR_TSC_SIGSEGV) != 0)
        give_up("prctl(PR_SET_TSC)");

    shorten_slice();
    /* Signals are QEMU's. */
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    for (intptr_t cpu = 0; cpu < CPU_COUNT(&host_cpus); cpu++) {
        pthread_t thread;
        errno = pthread_create(&thread, NULL, end_turns, (void *)cpu);
        if (errno != 0)
            give_up("pthread_create");
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}
