//! How much of its CPU time a program's threads wait by spinning, outside any runtime that could tell.
//!
//! A thread that waits in a loop comes back to the same states again and again: the same instruction with the same values
//! in all registers, as nothing but memory that another thread writes can end its wait. Where a thread computes, searches
//! or copies, a count, an address or a result in a register differs from turn to turn. So the kernel's clock of a thread
//! (`PERF_COUNT_SW_TASK_CLOCK`, which every machine has) samples its registers, and code counts as a wait if nearly all
//! samples from there came more than once.
//!
//! Neither code nor memory of the program is read, so that no more is needed than for counting (`CAP_PERFMON`
//! for other users' programs). Not seen: a wait that counts its turns or reads a clock; one by `sched_yield` or `futex`,
//! in which the time passes in the kernel, and which leaves its CPU to others anyway. Taken for a wait although it is
//! none: a loop whose only state is in vector registers. What more CPUs change tells that apart: threads that have one
//! each hardly wait for one another.

use mapper_model::ThreadId;
use perf_event::events::Software;
use perf_event::{Builder, SampleFlag, Sampler};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::time::{Duration, Instant};

/// CPU time of a thread between two samples.
const PERIOD: Duration = Duration::from_micros(250);

/// How often the samples are fetched, and the bytes in which they wait: some 25 KiB/s of each thread.
const FETCHED: Duration = Duration::from_millis(10);
const BUFFER: usize = 16 << 10;

/// Threads of a program that are sampled, at most.
const MOST_THREADS: usize = 16;

/// Fewer samples show nothing.
const FEWEST: usize = 100;

/// Instructions that are this far apart or less are of the same code.
const NEAR_BYTES: u64 = 32;

/// The part of the samples of a wait that come more than once.
const REPEATED: f64 = 0.9;

/// `PERF_RECORD_SAMPLE`.
const SAMPLE: u32 = 9;

/// The registers for integers and addresses, with that of the instruction (`PERF_REG_*` in `asm/perf_regs.h`), and the
/// place of this one among them.
const REGISTERS: Option<(u64, usize)> = if cfg!(target_arch = "x86_64") {
    Some((0x00ff_01ff, 8))
} else if cfg!(target_arch = "aarch64") {
    Some(((1 << 33) - 1, 32))
} else {
    None
};

/// The share of these threads' CPU time during the next while that they wait by spinning. `None` if they cannot be
/// sampled, have ended, or are mostly in the kernel. Takes that long.
#[must_use]
pub fn spinning_share(threads: &[ThreadId], time: Duration) -> Option<f64> {
    let (registers, place) = REGISTERS?;
    let opened = threads.iter().take(MOST_THREADS);
    // Some may have ended.
    let mut samplers: Vec<Sampler> = opened
        .filter_map(|thread| open(*thread, registers).ok())
        .collect();
    let mut samples = Vec::new();
    let end = Instant::now() + time;
    while !samplers.is_empty() && Instant::now() < end {
        std::thread::sleep(FETCHED);
        for (thread, sampler) in samplers.iter_mut().enumerate() {
            fetch(sampler, thread, place, &mut samples);
        }
    }
    let used = samplers.iter_mut().map(|sampler| sampler.read());
    let used_ns: u64 = used.map(Result::unwrap_or_default).sum();
    // What is missing was spent in the kernel.
    let seen_ns = samples.len() as u128 * PERIOD.as_nanos();
    let enough = samples.len() >= FEWEST && 2 * seen_ns >= u128::from(used_ns);
    enough.then(|| share(&mut samples))
}

/// Where a thread was, and in which state.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Sample {
    instruction: u64,
    state: u64,
}

fn open(thread: ThreadId, registers: u64) -> io::Result<Sampler> {
    let pid = i32::try_from(thread.0).map_err(io::Error::other)?;
    let mut builder = Builder::new(Software::TASK_CLOCK);
    builder.observe_pid(pid).any_cpu();
    builder.sample_period(PERIOD.as_nanos() as u64);
    builder
        .sample(SampleFlag::REGS_USER)
        .sample_regs_user(registers);
    let mut sampler = builder.build()?.sampled(BUFFER)?;
    sampler.enable()?;
    Ok(sampler)
}

fn fetch(sampler: &mut Sampler, thread: usize, place: usize, samples: &mut Vec<Sample>) {
    while let Some(record) = sampler.next_record() {
        // The kind of the registers, and then each of them.
        let bytes = record.to_contiguous();
        let (words, _) = bytes.as_chunks::<8>();
        if record.ty() == SAMPLE
            && let Some(instruction) = words.get(1 + place)
        {
            let mut hasher = DefaultHasher::new();
            (thread, words).hash(&mut hasher);
            samples.push(Sample {
                instruction: u64::from_ne_bytes(*instruction),
                state: hasher.finish(),
            });
        }
    }
}

/// The share of the samples that are from waits.
fn share(samples: &mut [Sample]) -> f64 {
    samples.sort_unstable();
    let mut times: HashMap<u64, u32> = HashMap::new();
    for sample in &*samples {
        *times.entry(sample.state).or_default() += 1;
    }
    let near = |one: &Sample, next: &Sample| next.instruction - one.instruction <= NEAR_BYTES;
    let waits = samples.chunk_by(near).filter(|code| {
        let repeated = code.iter().filter(|sample| times[&sample.state] > 1);
        repeated.count() as f64 >= REPEATED * code.len() as f64
    });
    let waiting: usize = waits.map(<[Sample]>::len).sum();
    waiting as f64 / samples.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::procfs::ProcFs;
    use std::process::{Child, Command, Stdio};

    /// What two threads of a program do on one CPU. `a` and `b` are theirs.
    const PROGRAM: &str = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <sched.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        static volatile int turn;
        static volatile double result;
        static int lock;
        static char text[2][1 << 16], copy[2][1 << 16];
        static double numbers[2][4096];
        static void work(int me) {
            for (;;) {
        #if WHAT == 0 /* waits for the other, by reading alone */
                while (turn != me) {}
                turn = !me;
        #elif WHAT == 1 /* the same with pauses, and some work */
                while (turn != me) __builtin_ia32_pause();
                for (int i = 0; i < 4096; i++) numbers[me][i] += i;
                turn = !me;
        #elif WHAT == 2 /* a lock by compare and exchange, which the other has for long */
                int open = 0;
                while (!__atomic_compare_exchange_n(&lock, &open, 1, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) open = 0;
                while (lock == 1) sched_yield();
        #elif WHAT == 3 /* counts */
                for (unsigned long i = 0; i < 1ul << 40; i++) result = (double)(i * i);
        #elif WHAT == 4 /* sums up an array */
                double sum = 0;
                for (int i = 0; i < 4096; i++) sum += numbers[me][i] * 1.5;
                result = sum;
        #elif WHAT == 5 /* searches */
                memset(text[me], 'x', sizeof text[me] - 1);
                result = strlen(text[me]) + (memchr(text[me], 'y', sizeof text[me]) != 0);
        #elif WHAT == 6 /* copies */
                memcpy(copy[me], text[me], sizeof copy[me]);
                result = copy[me][7];
        #elif WHAT == 7 /* yields */
                sched_yield();
        #endif
            }
        }
        static void *thread(void *arg) { work((int)(long)arg); return 0; }
        int main(void) {
            cpu_set_t one;
            CPU_ZERO(&one);
            CPU_SET(sched_getcpu(), &one);
            sched_setaffinity(0, sizeof one, &one);
            pthread_t other;
            pthread_create(&other, 0, thread, (void *)1);
            work(0);
        }
    "#;

    struct Running(Child);

    impl Drop for Running {
        fn drop(&mut self) {
            self.0.kill().unwrap();
            self.0.wait().unwrap();
        }
    }

    fn share_of_program(what: u32, optimized: &str) -> Option<f64> {
        let dir = tempfile::tempdir().unwrap();
        let (source, file) = (dir.path().join("p.c"), dir.path().join("p"));
        std::fs::write(&source, PROGRAM).unwrap();
        let mut compiler = Command::new("cc");
        compiler.args([optimized, "-pthread", "-w", &format!("-DWHAT={what}"), "-o"]);
        assert!(compiler.arg(&file).arg(&source).status().unwrap().success());
        let child = Command::new(&file).stdin(Stdio::null()).spawn().unwrap();
        let running = Running(child);
        std::thread::sleep(Duration::from_millis(50));
        let proc = ProcFs::system().unwrap();
        let threads = proc.threads_from(running.0.id(), 0, 9).unwrap();
        // Another program may have the CPU.
        (0..5).find_map(|_| spinning_share(&threads, Duration::from_millis(100)))
    }

    #[test]
    fn code_is_a_wait_where_nearly_all_states_come_again() {
        let code = |at: u64, states: [u64; 20]| {
            states.map(|state| Sample {
                instruction: at + state % 8,
                state: at + state,
            })
        };
        let wait = code(1000, std::array::from_fn(|nth| nth as u64 % 4));
        let count = code(5000, std::array::from_fn(|nth| nth as u64));
        assert_eq!(share(&mut wait.clone()), 1.0);
        assert_eq!(share(&mut [wait, count].concat()), 0.5);
        // Every second instruction has the same registers in each turn.
        let half = std::array::from_fn(|nth| if nth % 2 == 0 { 0 } else { nth as u64 });
        assert_eq!(share(&mut code(1000, half)), 0.0);
    }

    #[test]
    fn threads_that_spin_for_one_another_are_seen_and_those_that_compute_are_not() {
        if REGISTERS.is_none() {
            return;
        }
        for optimized in ["-O0", "-O2", "-O3"] {
            for what in 0..7 {
                let share = share_of_program(what, optimized).unwrap();
                match what {
                    0..3 => assert!(share > 0.8, "{what} {optimized}: {share}"),
                    _ => assert!(share < 0.1, "{what} {optimized}: {share}"),
                }
            }
        }
        assert_eq!(
            share_of_program(7, "-O2"),
            None,
            "the time passes in the kernel"
        );
    }
}
