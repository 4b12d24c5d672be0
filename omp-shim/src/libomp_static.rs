//! Static loops of libomp: `__kmpc_for_static_init_*` divides a loop among the threads of a team.
//!
//! *Problem.* A program has eight threads and is left with two CPUs. The threads without a CPU have
//! their parts of every static loop, and all others wait for them at its end.
//!
//! *Approach.* Where `schedule(static)` names no chunk size, OpenMP only says that a thread gets at most
//! one chunk, of roughly equal size, and that two such loops of a region with as many iterations are
//! divided alike. Both still hold when the loop is divided among the first *k* threads and the others
//! get nothing, with *k* the number of CPUs at the start of the region. The real function is called
//! all the same, which keeps its books; then the bounds are overwritten.
//!
//! *What is left alone.* Loops with a chunk size, whose chunks go to all threads in turn; sections and
//! `distribute`; loops of few iterations, where programs like to do one thing for each thread; nested
//! regions. (gcc divides static loops in the program itself, where nobody can help.)
//!
//! *Invariants.* A region that began with enough CPUs pays a load and a comparison for a loop.

use core::ffi::{c_int, c_void};

use crate::crew::Crew;
use crate::libgomp_regions::real;
use crate::libomp::runtime_of;
use crate::symbols::Symbol;
use crate::thread_state;

/// `schedule(static)` without a chunk size.
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

/// A thread's part of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Empty,
    Bounds {
        lower: i128,
        upper: i128,
        is_last: bool,
    },
}

impl Loop {
    fn iterations(self) -> i128 {
        let distance = self.upper - self.lower;
        match distance.checked_div(self.increment) {
            Some(steps) if distance == 0 || (distance > 0) == (self.increment > 0) => steps + 1,
            _ => 0,
        }
    }

    /// The part of the thread with number `rank` when the first `active` threads share it.
    fn part(self, rank: u32, active: u32) -> Part {
        let (rank, active) = (i128::from(rank), i128::from(active));
        let iterations = self.iterations();
        let (each, extra) = (iterations / active, iterations % active);
        let first = rank * each + rank.min(extra);
        let count = each + i128::from(rank < extra);
        if rank >= active || count == 0 {
            return Part::Empty;
        }
        Part::Bounds {
            lower: self.lower + first * self.increment,
            upper: self.lower + (first + count - 1) * self.increment,
            is_last: first + count == iterations,
        }
    }
}

/// How many threads divide the loops of a crew that are to be divided anew, and which of them the
/// calling one is.
struct Division {
    rank: u32,
    active: u32,
}

/// Whether the loop is to be divided anew.
#[cold]
fn division(crew: &Crew, location: *const c_void, schedule: c_int, work: Loop) -> Option<Division> {
    if location.is_null() || schedule & !MODIFIERS != STATIC {
        return None;
    }
    // SAFETY: a location descriptor begins with a reserved number and its flags.
    let flags = unsafe { location.cast::<c_int>().add(1).read() };
    let members = crew.runtime.team_size(crew.family);
    let applies = flags & WORK_LOOP != 0
        && members > crew.active()
        && crew.is_outermost()
        && work.iterations() >= FEW * i128::from(members);
    applies.then(|| Division {
        rank: crew.runtime.thread_num(crew.family),
        active: crew.active(),
    })
}

macro_rules! static_init {
    ($($name:ident($bound:ty, $stride:ty);)*) => {$(
        /// Divides a loop by the real function of the same name, or among fewer threads.
        ///
        /// # Safety
        /// To be called as clang does.
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
            let few = thread.crew().filter(|crew| crew.may_exceed_cpus());
            let division = few.and_then(|crew| {
                // SAFETY: the caller passes the bounds of the whole loop in these places.
                let (from, to) = unsafe { (lower.read(), upper.read()) };
                let work = Loop {
                    lower: from.into(),
                    upper: to.into(),
                    increment: increment.into(),
                };
                Some((work, division(crew, location, schedule, work)?))
            });
            // SAFETY: the arguments are the caller's.
            unsafe {
                run(
                    location, thread_number, schedule, last, lower, upper, stride, increment, chunk,
                );
            }
            if let Some((work, Division { rank, active })) = division {
                let part = work.part(rank, active);
                let (from, to, is_last) = match part {
                    // As libomp says it.
                    Part::Empty => (work.upper + work.increment, work.upper, false),
                    Part::Bounds { lower, upper, is_last } => (lower, upper, is_last),
                };
                // SAFETY: the real function has written to the same places. The casts wrap only for
                // the bound of an empty part, where libomp's own arithmetic does.
                unsafe {
                    lower.write(from as $bound);
                    upper.write(to as $bound);
                    if !last.is_null() {
                        last.write(c_int::from(is_last));
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

    fn covered(work: Loop, members: u32, active: u32) -> Vec<i128> {
        let mut seen = Vec::new();
        let mut last = 0;
        for rank in 0..members {
            if let Part::Bounds {
                lower,
                upper,
                is_last,
            } = work.part(rank, active)
            {
                assert!(rank < active);
                last += u32::from(is_last);
                let mut variable = lower;
                loop {
                    seen.push(variable);
                    if variable == upper {
                        break;
                    }
                    variable += work.increment;
                }
            }
        }
        assert_eq!(last, 1, "{work:?}");
        seen
    }

    #[test]
    fn the_parts_are_the_loop_in_order_and_the_last_is_told() {
        for (lower, upper, increment) in [(0, 99, 1), (-7, 1000, 13), (100, -3, -4), (5, 5, 1)] {
            let work = Loop {
                lower,
                upper,
                increment,
            };
            let all: Vec<i128> = (0..work.iterations())
                .map(|iteration| lower + iteration * increment)
                .collect();
            for members in 1..9 {
                for active in 1..=members {
                    assert_eq!(covered(work, members, active), all);
                }
            }
        }
    }

    #[test]
    fn parts_differ_by_one_iteration_at_most() {
        let work = Loop {
            lower: 0,
            upper: 99,
            increment: 1,
        };
        let sizes: Vec<i128> = (0..7)
            .filter_map(|rank| match work.part(rank, 7) {
                Part::Empty => None,
                Part::Bounds { lower, upper, .. } => Some(upper - lower + 1),
            })
            .collect();
        assert_eq!(sizes.iter().sum::<i128>(), 100);
        assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1);
    }

    #[test]
    fn a_loop_that_does_not_run_has_no_parts() {
        for (lower, upper, increment) in [(1, 0, 1), (0, 1, -1), (0, 5, 0)] {
            let work = Loop {
                lower,
                upper,
                increment,
            };
            assert_eq!(work.iterations(), 0);
            assert_eq!(work.part(0, 2), Part::Empty);
        }
    }

    #[test]
    fn the_largest_loops_do_not_overflow() {
        let work = Loop {
            lower: 0,
            upper: u64::MAX.into(),
            increment: 1,
        };
        let Part::Bounds { upper, is_last, .. } = work.part(2, 3) else {
            panic!("the last of three threads has a part");
        };
        assert_eq!((upper, is_last), (u64::MAX.into(), true));
    }
}
