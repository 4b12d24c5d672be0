/* The page that mapperd and an application share: layout version 1.
 *
 * Generated from crates/abi/src/layout.rs; do not edit. All fields are to be accessed atomically
 * (relaxed loads and stores; the allocation under its sequence number, see crates/abi/src/seqlock.rs).
 */

#ifndef MAPPER_PAGE_H
#define MAPPER_PAGE_H

#include <stdint.h>
#define MAPPER_ALIGNED(n) __attribute__((aligned(n)))

// First word of the page: the bytes `MAPPERPG` on a little-endian machine.
#define MAPPER_PAGE_MAGIC 5138697632483393869

// Version of the layout in this file.
#define MAPPER_PAGE_VERSION 1

// Length of the page, the memfd and the mapping.
#define MAPPER_PAGE_BYTES 65536

// CPUs that the mask can name.
#define MAPPER_MAX_CPUS 4096

// 64-bit words of the CPU mask.
#define MAPPER_MASK_WORDS 64

// Thread slots in the page; the last one is shared by all threads that found no other.
#define MAPPER_SLOT_COUNT 480

// Bit of `runtimes`: GCC's libgomp.
#define MAPPER_RUNTIME_LIBGOMP 1

// Bit of `runtimes`: LLVM's (or Intel's) libomp.
#define MAPPER_RUNTIME_LIBOMP 2

// Bit of `flags`: barriers may spin for long, so that the program suffers from fewer CPUs than threads.
#define MAPPER_FLAG_WAITS_SPIN 1

// Bit of `flags`: `wait_ns` in the slots is measured.
#define MAPPER_FLAG_WAIT_MEASURED 2

// Bit of `flags`: some threads share the last slot.
#define MAPPER_FLAG_SLOTS_EXHAUSTED 4

// Bit of `flags`: threads without a CPU are not parked any more, for iterations of a loop waited for one another.
#define MAPPER_FLAG_PARKING_ENDED 8

// Bit of `flags`: threads of virtual teams that alternate on a kernel thread share thread-local storage.
#define MAPPER_FLAG_STORAGE_SHARED 16

// Bit of `flags`: the shim only observes a linked copy of libomp, by OMPT, and cannot intercept it.
#define MAPPER_FLAG_OBSERVED 32

// Value of `teams_off`: the program called `omp_set_num_threads`.
#define MAPPER_TEAMS_OFF_SET_NUM_THREADS 1

// Value of `teams_off`: the program called `omp_set_dynamic(0)`.
#define MAPPER_TEAMS_OFF_SET_DYNAMIC 2

// Value of `teams_off`: the program gives its regions a `num_threads` clause.
#define MAPPER_TEAMS_OFF_CLAUSE 3

// Value of `teams_off`: no virtual teams, for a module has doacross loops.
#define MAPPER_TEAMS_OFF_ORDERED 4

// Value of `teams_off`: no virtual teams, for a module has detached tasks or `taskwait nowait`.
#define MAPPER_TEAMS_OFF_TASKS 5

// Value of `teams_off`: no virtual teams, for a module has reductions over tasks.
#define MAPPER_TEAMS_OFF_TASK_REDUCTION 6

// Value of `teams_off`: no virtual teams, for a module cancels constructs.
#define MAPPER_TEAMS_OFF_CANCELLATION 7

// Value of `teams_off`: no virtual teams, for a module has teams or target regions.
#define MAPPER_TEAMS_OFF_OFFLOADING 8

// Value of `teams_off`: no virtual teams, for a module was compiled with a sanitizer.
#define MAPPER_TEAMS_OFF_SANITIZER 9

// Value of `teams_off`: no virtual teams, for a module binds state to the kernel's threads.
#define MAPPER_TEAMS_OFF_THREAD_BOUND 10

// Value of `teams_off`: no virtual teams, for the environment binds threads to places.
#define MAPPER_TEAMS_OFF_BINDING 11

// Value of `teams_off`: no virtual teams, for the environment gives sizes for nested teams.
#define MAPPER_TEAMS_OFF_NESTED_SIZES 12

// Value of `teams_off`: no virtual teams, for the kernel lacks something they need.
#define MAPPER_TEAMS_OFF_PLATFORM 13

// Value of `teams_off`: no virtual teams, for a module uses an entry point that is not served.
#define MAPPER_TEAMS_OFF_UNSERVED 14

// Value of `teams_off`: virtual teams were given up, for threads waited for one another without OpenMP.
#define MAPPER_TEAMS_OFF_STALLED 15

// Value of `teams_off`: teams are not virtual while the program lets the runtime choose their sizes.
#define MAPPER_TEAMS_OFF_DYNAMIC 16

// Value of `teams_off`: some teams are not virtual, being larger than virtual teams can be.
#define MAPPER_TEAMS_OFF_TOO_LARGE 17

// Value of `teams_off`: teams do not follow, for the shim only observes them and cannot set their size.
#define MAPPER_TEAMS_OFF_OBSERVED 18

// Value of `teams_off`: virtual teams were given up, for the thread that monitors them failed.
#define MAPPER_TEAMS_OFF_UNWATCHED 19

// Value of `teams_off`: teams are not virtual, for the program looks up functions of the runtime by a handle.
#define MAPPER_TEAMS_OFF_BY_HANDLE 20

// Value of `teams_off`: no virtual teams, for its threads change kernel settings of their own, or a module may.
#define MAPPER_TEAMS_OFF_KERNEL_STATE 21

// Value of `teams_off`: virtual teams were given up, for threads waited for one another by spinning.
#define MAPPER_TEAMS_OFF_SPUN 22

// Value of `progress_kind`: the application reports work done.
#define MAPPER_PROGRESS_WORK 1

// Value of `progress_kind`: the application reports a latency.
#define MAPPER_PROGRESS_LATENCY 2

// Value of `team_mode`: teams keep the size they had at launch.
#define MAPPER_TEAM_MODE_FIXED 0

// Value of `team_mode`: the team of an outermost region has as many threads as there are CPUs.
#define MAPPER_TEAM_MODE_FOLLOW 1

// Value of `team_mode`: teams have the size the program expects, on as many OS threads as there are CPUs.
#define MAPPER_TEAM_MODE_VIRTUAL 2

// Zero words between the report and the slots, which start at 4096.
#define MAPPER_RESERVED_WORDS 384

// Written once, before any other process has the page.
struct MAPPER_ALIGNED(128) mapper_header {
  // `PAGE_MAGIC`.
  uint64_t magic;
  // `PAGE_VERSION`.
  uint32_t version;
  // `PAGE_BYTES`.
  uint32_t size;
  // The random number that the launcher also puts into the environment.
  uint64_t token;
};

// What the application may use. Written by the daemon alone.
struct MAPPER_ALIGNED(128) mapper_allocation_block {
  // Odd while the daemon writes; half of it is the generation. Also a futex word.
  uint32_t sequence;
  // How many CPUs the application has; 0 before the first decision.
  uint32_t cpu_count;
  // What the shim may do with teams: one of `TEAM_MODE_*`.
  uint32_t team_mode;
  // Largest useful team for this application; 0 for no limit.
  uint32_t max_team;
  // NUMA nodes of the CPUs, bit *n* for node *n*.
  uint64_t node_mask;
  // The CPUs, bit *c* mod 64 of word *c* / 64 for CPU *c*.
  uint64_t cpu_mask[MAPPER_MASK_WORDS];
};

// What the application reports about itself as a whole. Written by the application alone.
struct MAPPER_ALIGNED(128) mapper_report_block {
  // Sum of `RUNTIME_*`: the runtimes that have started a region or a loop.
  uint32_t runtimes;
  // Sum of `FLAG_*`.
  uint32_t flags;
  // Why teams do not follow the allocation: one of `TEAMS_OFF_*`, 0 when they do.
  uint32_t teams_off;
  // Sequence number of the allocation that the latest outermost region was started under.
  uint32_t applied_sequence;
  // Team size requested at that region.
  uint32_t team_size;
  // `omp_get_max_threads()` before the first region.
  uint32_t max_threads;
  // Slots handed out so far; the slots below it may be in use.
  uint32_t slots_claimed;
  // Slots below `slots_claimed` that their threads released.
  uint32_t slots_released;
  // Futex word that parked threads wait on: incremented by the daemon after each new allocation, and by the
  // application's own threads when a loop is exhausted.
  uint32_t doorbell;
  // CPUs of the allocation `applied_sequence` that the application's regions do not need. Set to 0 before another
  // allocation is applied.
  uint32_t spare_cpus;
  // How often threads of a virtual team had to be run beside their carrier, since another one did not reach a
  // construct of OpenMP in time.
  uint32_t preemptions;
};

// What the application's own code reports, through the C interface. Written by any of its threads.
struct MAPPER_ALIGNED(128) mapper_own_report_block {
  // How progress was reported last: one of `PROGRESS_*`, 0 for not at all.
  uint32_t progress_kind;
  // How many serial phases are open: parts in which the application uses one CPU only.
  uint32_t serial_phases;
  // Work done so far in the application's own unit: the bits of a double, never decreasing.
  uint64_t work_done;
  // `CLOCK_MONOTONIC` of the latest report of work.
  uint64_t work_at_ns;
  // Recent latency: the bits of a double, in nanoseconds.
  uint64_t latency_ns;
  // `CLOCK_MONOTONIC` of the latest report of a latency.
  uint64_t latency_at_ns;
  // The CPUs it can use: the fewest in the low half, the most in the high half; 0 for not reported.
  uint64_t cpu_range;
};

// What one thread has done. Written by its owner, or with atomic additions by several if it is the last slot.
struct MAPPER_ALIGNED(128) mapper_thread_slot {
  // Process id (high half) and thread id (low half) of the owner; 0 when free.
  uint64_t owner;
  // Parallel regions completed, counted by the thread that started them.
  uint64_t regions;
  // Iterations completed of loops that the runtime dispenses in chunks.
  uint64_t iterations;
  // Time spent waiting at barriers; stays 0 unless `FLAG_WAIT_MEASURED` is set.
  uint64_t wait_ns;
  // `CLOCK_MONOTONIC` (coarse) at the last region or loop that was completed.
  uint64_t last_progress_ns;
  // Identity of the region this thread started last: a hash of its function's place in the program, the same in every
  // run, or the function's address; 0 before the first.
  uint64_t region;
  // Time in parallel regions that this thread started, nested ones once more, estimated by samples; stays 0 where it is
  // not measured.
  uint64_t parallel_ns;
  // `CLOCK_MONOTONIC` when the region began that this thread is in, if that region will count in `parallel_ns`; else 0.
  uint64_t parallel_since_ns;
};

// The whole page.
struct MAPPER_ALIGNED(128) mapper_page {
  // Written by the daemon.
  struct mapper_header header;
  // Daemon to application.
  struct mapper_allocation_block allocation;
  // Application to daemon.
  struct mapper_report_block report;
  // The application's own code to the daemon.
  struct mapper_own_report_block own;
  // Room for later parts.
  uint64_t reserved[MAPPER_RESERVED_WORDS];
  // Application to daemon, one for each thread.
  struct mapper_thread_slot slots[MAPPER_SLOT_COUNT];
};

#endif  /* MAPPER_PAGE_H */
