//! Static loops of libomp: `__kmpc_for_static_init_*` divides a loop among the threads of a team.
//!
//! *Problem.* Threads without a CPU have their parts of every static loop, and all others wait for them at its end.
//!
//! *Approach.* Where `schedule(static)` names no chunk size, OpenMP says that a thread gets at most one chunk, that
//! chunks are "approximately equal in size", and that two such loops of a region are divided alike. Here *k* threads
//! (the CPUs at the start of the region) have all but one iteration of each other thread: the first and the last
//! promise hold; the second is given up, which no iteration can tell. (One, since some programs count on each thread to
//! have had some of a long loop. The last thread is one of the *k*, since clang takes its last value for the loop's.)
//! Floating-point sums of reductions may differ in their last bits, as between team sizes. The real function is called
//! first, for its state.
//!
//! *Left alone:* loops with a chunk size; sections and `distribute`; loops of few iterations, where programs do one
//! thing for each thread; nested regions. A region with enough CPUs for its usual team pays a load and a comparison.

use core::ffi::{c_int, c_void};

use mapper_shim_core::pass_on::real;
use mapper_shim_core::symbols::Symbol;
use mapper_shim_core::team_record::TeamRecord;
use mapper_shim_core::thread_state;

use crate::kmpc::location::runtime_of;

const STATIC: c_int = 34;
/// Bits of a schedule that say whether chunks must come in ascending order.
const MODIFIERS: c_int = 1 << 29 | 1 << 30;
/// Bit of a location's flags: what is divided is a loop.
const WORK_LOOP: c_int = 0x200;
/// Fewer iterations for each thread of the team are left alone.
const FEW: i128 = 4;

/// A loop: from `lower` up, or down, to and with `upper`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Loop {
    lower: i128,
    upper: i128,
    increment: i128,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    lower: i128,
    upper: i128,
    is_last: bool,
}

impl Loop {
    fn iterations(self) -> i128 {
        let distance = self.upper - self.lower;
        match distance.checked_div(self.increment) {
            Some(steps) if distance == 0 || (distance > 0) == (self.increment > 0) => steps + 1,
            _ => 0,
        }
    }

    /// The calling thread's part; there are at least as many iterations as members.
    fn part(self, division: Division) -> Part {
        let [rank, members, active] =
            [division.rank, division.members, division.active].map(i128::from);
        let iterations = self.iterations();
        let shared = iterations - (members - active);
        let (each, extra) = (shared / active, shared % active);
        let singles = (active - 1) * each + (active - 1).min(extra);
        let begin = |rank: i128| match rank {
            rank if rank < active => rank * each + rank.min(extra),
            rank if rank < members => singles + rank - (active - 1),
            _ => iterations,
        };
        let (first, next) = (begin(rank), begin(rank + 1));
        Part {
            lower: self.lower + first * self.increment,
            upper: self.lower + (next - 1) * self.increment,
            is_last: next == iterations,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Division {
    members: u32,
    /// Those that do most of it; at least one.
    active: u32,
    rank: u32,
}

#[cold]
fn division(
    record: &TeamRecord,
    location: *const c_void,
    schedule: c_int,
    work: Loop,
) -> Option<Division> {
    if location.is_null() || schedule & !MODIFIERS != STATIC {
        return None;
    }
    // SAFETY: a location descriptor begins with a reserved number and its flags.
    let flags = unsafe { location.cast::<c_int>().add(1).read() };
    let members = record.runtime.team_size(record.family);
    let applies = flags & WORK_LOOP != 0
        && members > record.active()
        && record.is_outermost()
        && work.iterations() >= FEW * i128::from(members);
    applies.then(|| Division {
        members,
        active: record.active().max(1),
        rank: record.runtime.thread_num(record.family),
    })
}

macro_rules! static_init {
    ($($name:ident($bound:ty, $stride:ty);)*) => {$(
        /// Divides a loop by the real function of the same name, or among fewer threads. Safety: as clang calls it.
        #[unsafe(no_mangle)]
        unsafe extern "C-unwind" fn $name(
            location: *mut c_void,
            thread_number: c_int,
            schedule: c_int,
            last: *mut c_int,
            lower: *mut $bound,
            upper: *mut $bound,
            stride: *mut $stride,
            increment: $stride,
            chunk: $stride,
        ) {
            let thread = thread_state::current();
            let runtime = runtime_of(thread, location, Symbol::$name);
            let run = real!(
                runtime, Symbol::$name,
                fn(*mut c_void, c_int, c_int, *mut c_int, *mut $bound, *mut $bound, *mut $stride,
                   $stride, $stride)
            );
            let few = thread.record().filter(|record| record.may_exceed_cpus());
            let division = few.and_then(|record| {
                // SAFETY: the caller passes the bounds of the whole loop in these places.
                let (from, to) = unsafe { (lower.read(), upper.read()) };
                let work = Loop {
                    lower: from.into(),
                    upper: to.into(),
                    increment: increment.into(),
                };
                Some((work, division(record, location, schedule, work)?))
            });
            // SAFETY: the arguments are the caller's.
            unsafe {
                run(
                    location, thread_number, schedule, last, lower, upper, stride, increment, chunk,
                );
            }
            if let Some((work, division)) = division {
                let part = work.part(division);
                // SAFETY: the real function has written to the same places. The bounds lie within the loop's.
                unsafe {
                    lower.write(part.lower as $bound);
                    upper.write(part.upper as $bound);
                    if !last.is_null() {
                        last.write(c_int::from(part.is_last));
                    }
                }
            }
        }
    )*};
}

static_init! {
    __kmpc_for_static_init_4(i32, i32);
    __kmpc_for_static_init_4u(u32, i32);
    __kmpc_for_static_init_8(i64, i64);
    __kmpc_for_static_init_8u(u64, i64);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(work: Loop, members: u32, active: u32) -> Vec<Part> {
        let part = |rank| Division {
            members,
            active,
            rank,
        };
        (0..members).map(|rank| work.part(part(rank))).collect()
    }

    fn iterations(mut work: Loop, part: Part) -> Vec<i128> {
        (work.lower, work.upper) = (part.lower, part.upper);
        values(work)
    }

    fn values(work: Loop) -> Vec<i128> {
        let value = |iteration| work.lower + iteration * work.increment;
        (0..work.iterations()).map(value).collect()
    }

    fn work(lower: i128, upper: i128, increment: i128) -> Loop {
        Loop {
            lower,
            upper,
            increment,
        }
    }

    #[test]
    fn the_parts_make_up_the_loop_in_order_and_the_last_is_marked() {
        for work in [
            work(0, 99, 1),
            work(-7, 1000, 13),
            work(100, -3, -4),
            work(1, 8, 1),
        ] {
            let all = values(work);
            for members in 1..9 {
                for active in 1..=members {
                    let parts = parts(work, members, active);
                    let covered = parts.iter().flat_map(|&part| iterations(work, part));
                    assert_eq!(covered.collect::<Vec<_>>(), all);
                    let last = parts.iter().position(|part| part.is_last);
                    assert_eq!(last, Some(parts.len() - 1));
                }
            }
        }
    }

    #[test]
    fn threads_without_a_cpu_have_one_iteration_and_the_others_as_many_but_for_one() {
        let work = work(0, 99, 1);
        let sizes: Vec<usize> = parts(work, 7, 3)
            .into_iter()
            .map(|part| iterations(work, part).len())
            .collect();
        assert_eq!(sizes, [32, 32, 1, 1, 1, 1, 32]);
        let sizes = parts(work, 7, 7);
        let sizes = sizes.into_iter().map(|part| iterations(work, part).len());
        assert!(sizes.clone().max().unwrap() - sizes.min().unwrap() <= 1);
    }

    #[test]
    fn a_loop_that_does_not_run_has_no_iterations() {
        for (lower, upper, increment) in [(1, 0, 1), (0, 1, -1), (0, 5, 0)] {
            assert_eq!(work(lower, upper, increment).iterations(), 0);
        }
    }

    #[test]
    fn the_largest_loops_do_not_overflow() {
        let work = work(0, u64::MAX.into(), 1);
        let part = parts(work, 3, 3)[2];
        assert_eq!((part.upper, part.is_last), (u64::MAX.into(), true));
    }
}
