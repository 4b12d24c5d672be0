/* libmapper: what a program can say to mapper, and ask of it.
 *
 * mapper moves CPUs between programs while they run. A program with threads of its own can follow by
 * keeping as many threads busy as it has CPUs; and it can say how far it has come, and when it has no
 * use for its CPUs.
 *
 *     cc program.c $(pkg-config --cflags --libs mapper)
 *
 * There is nothing to initialise. Without mapper (the program was not started by mapper-launch) all
 * functions do nothing: counts are 0, and what is said is heard by nobody. All may be called from any
 * thread. But for mapper_wait and mapper_promise none waits, and once the first call of the program has
 * been made, none makes a system call.
 */
#ifndef MAPPER_H
#define MAPPER_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The CPUs that the program has. */
struct mapper_allocation {
    uint32_t generation; /* another with every allocation; to be given to mapper_wait */
    uint32_t cpu_count;  /* how many CPUs: what a pool of threads should have */
    uint64_t node_mask;  /* their NUMA nodes, bit n for node n */
};

/* 1 if mapper manages this program and speaks to it, else 0: not when it was started by mapper-launch --no-runtime. */
int mapper_is_managed(void);

/* How many CPUs the program has now; 0 when not managed. */
uint32_t mapper_cpu_count(void);

/* The generation of the allocation, at the cost of one load; 0 when not managed. */
uint32_t mapper_generation(void);

/* Fills in the allocation and returns 1; returns 0 and changes nothing when not managed. */
int mapper_get_allocation(struct mapper_allocation *allocation);

/* Fills in which CPUs they are and returns their number; returns 0 and changes nothing when not
 * managed. `cpu_set` is a cpu_set_t (see CPU_SET(3)), `size` its size in bytes. */
int mapper_get_cpus(size_t size, void *cpu_set);

/* Waits until the allocation is another than that of `generation`, for `timeout_s` seconds at most.
 * Fills in the new one (unless null) and returns 1, or returns 0 if there is none by then. */
int mapper_wait(uint32_t generation, double timeout_s, struct mapper_allocation *allocation);

/* Says that so much work is done, in any unit that is always the same; more per second is better. The
 * amounts of all threads add up. mapper then judges the program by this instead of by counters. An
 * amount that is negative, NaN or infinite is ignored, and so is one with which the sum would be
 * infinite; the sum is a double, so that an amount below about 1e-16 of it adds nothing. */
void mapper_work_done(double amount);

/* Says how long something took that should be quick, such as a request; less is better. mapper sees
 * an average of the latest. What is negative, NaN or infinite, or 2^64 s or longer, is ignored. */
void mapper_latency(double seconds);

/* Declares that the program can use from `least` to `most` CPUs; 0 for either leaves it open. Narrows
 * what the program was launched with; a `least` beyond an equal share of the machine is cut to that. */
void mapper_declare_cpus(uint32_t least, uint32_t most);

/* Has the program promised `share` of its performance on its fair share of the CPUs, above 0 and up to 1, from the
 * next decision on. Asks the daemon and returns 0, or leaves the promise as it was and returns EINVAL (no such
 * share), EPERM (the operator allows its user less), ENOTCONN (no daemon answers), EPROTO (refused for another reason) or EIO. Returns 0 when not managed. */
int mapper_promise(double share);

/* Between these the program needs one CPU only. For phases of a second or more: mapper decides about
 * once a second. Phases of several threads may overlap; the last end counts. With the decision after it the program
 * has again what it had before, unless the promise to another program needs that. */
void mapper_serial_begin(void);
void mapper_serial_end(void);

#ifdef __cplusplus
}
#endif

#endif
