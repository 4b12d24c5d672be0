//! Where a libgomp keeps how long its threads spin at a barrier before they sleep, in turns of its waiting loop.
//!
//! *Approach.* libgomp reads `GOMP_SPINCOUNT` once, at start. Since gcc 4.4 it keeps two counts of 64 bits, defined
//! together (`gomp_spin_count_var` and `gomp_throttled_spin_count_var` in `env.c`), and reads one at each wait: the
//! second when it runs more threads than it had CPUs at start. The launcher chose the first; the second is
//! [`THROTTLED`] whenever the first is not less. So the library's variables are searched for the first number with the
//! second close to it.
//!
//! *Invariants.* Only one such pair is accepted; anything else (another libgomp, a user's `OMP_WAIT_POLICY`) is left as
//! it is. A word is changed only from the value it was left at. The library is never unloaded.

use core::sync::atomic::{AtomicU64, Ordering};

use mapper_shim_core::elf;

/// The count for programs with more threads than CPUs, unless `OMP_WAIT_POLICY` is set.
const THROTTLED: u64 = 100;
/// How far apart the two may lie: gcc puts them 8 or 16 bytes apart.
const CLOSE_BYTES: usize = 32;

#[derive(Debug)]
pub(crate) struct SpinCounts {
    usual: Count,
    throttled: Count,
}

#[derive(Debug)]
struct Count {
    word: &'static AtomicU64,
    first: u64,
    left: AtomicU64,
}

impl SpinCounts {
    /// Those of the library at `address`, started with so many turns. Safety: the library is never unloaded.
    pub(crate) unsafe fn find(address: usize, turns: u32) -> Option<Self> {
        let usual = u64::from(turns);
        if usual <= THROTTLED {
            return None;
        }
        let (mut usual_places, mut throttled_places) = (Vec::new(), Vec::new());
        elf::each_variable_word(address, |word| {
            // SAFETY: a word of the library's variables: mapped, aligned, and there as long as the library, which the
            // caller vouches for. Others may write it, hence the atomic.
            match unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed) {
                THROTTLED => throttled_places.push(word as usize),
                value if value == usual => usual_places.push(word as usize),
                _ => {}
            }
        });
        let close = |usual: usize| {
            let is_close = move |place: &usize| place.abs_diff(usual) <= CLOSE_BYTES;
            throttled_places.iter().copied().filter(is_close)
        };
        let mut pairs = usual_places
            .iter()
            .flat_map(|&usual| close(usual).map(move |throttled| (usual, throttled)));
        let (Some((usual_place, throttled_place)), None) = (pairs.next(), pairs.next()) else {
            return None;
        };
        let count = |place: usize, first: u64| Count {
            // SAFETY: as above; the module writes it once, in its constructor, which has run.
            word: unsafe { AtomicU64::from_ptr(place as *mut u64) },
            first,
            left: AtomicU64::new(first),
        };
        Some(Self {
            usual: count(usual_place, usual),
            throttled: count(throttled_place, THROTTLED),
        })
    }

    /// Has threads spin for so many turns from now on; with the launcher's number all is as it was.
    pub(crate) fn set(&self, turns: u32) {
        let turns = u64::from(turns);
        self.throttled.set(match turns == self.usual.first {
            true => self.throttled.first,
            false => turns,
        });
        self.usual.set(turns);
    }

    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.usual.word, other.usual.word)
    }
}

impl Count {
    /// Leaves it alone if something else has changed it. Of two concurrent changes one may be lost until the next wait.
    fn set(&self, turns: u64) {
        let left = self.left.load(Ordering::Relaxed);
        if left == turns {
            return;
        }
        // libgomp reads it as a plain variable, at each wait; an aligned word is never seen half written.
        let changed = self
            .word
            .compare_exchange(left, turns, Ordering::Relaxed, Ordering::Relaxed);
        if changed.is_ok() {
            self.left.store(turns, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables with nothing known close to them.
    type Variables = [AtomicU64; 12];

    const fn variables([a, b, c, d]: [u64; 4]) -> Variables {
        let mut variables = [const { AtomicU64::new(0) }; 12];
        variables[4] = AtomicU64::new(a);
        variables[5] = AtomicU64::new(b);
        variables[6] = AtomicU64::new(c);
        variables[7] = AtomicU64::new(d);
        variables
    }

    /// As libgomp's variables lie, in either order, with a number that occurs nowhere else.
    static DOWNWARDS: Variables = variables([THROTTLED, 2_718_281, 0, 0]);
    static UPWARDS: Variables = variables([3_141_592, 0, THROTTLED, 0]);
    static CHANGED: Variables = variables([2_236_067, THROTTLED, 0, 0]);
    static TWICE: Variables = variables([1_414_213, THROTTLED, 1_414_213, THROTTLED]);
    static TWO_SECOND_ONES: Variables = variables([THROTTLED, 0, 2_645_751, THROTTLED]);
    static APART: Variables = variables([0, 0, 0, 3_316_624]);
    static OTHER_POLICY: Variables = variables([0, 1_732_050, 0, 0]);

    fn find(turns: u32) -> Option<SpinCounts> {
        // SAFETY: it is the test program itself.
        unsafe { SpinCounts::find(find as *const () as usize, turns) }
    }

    fn values(variables: &Variables) -> [u64; 4] {
        [4, 5, 6, 7].map(|index: usize| variables[index].load(Ordering::Relaxed))
    }

    #[test]
    fn both_counts_are_found_changed_and_restored() {
        for (variables, turns) in [(&DOWNWARDS, 2_718_281), (&UPWARDS, 3_141_592)] {
            let before = values(variables);
            let counts = find(turns).unwrap();
            for long in [5_000_000, 7_000_000, 7_000_000] {
                counts.set(long);
                let all = before.map(|value| if value == 0 { 0 } else { u64::from(long) });
                assert_eq!(values(variables), all);
            }
            for _ in 0..2 {
                counts.set(turns);
                assert_eq!(values(variables), before);
            }
        }
    }

    #[test]
    fn a_count_changed_from_outside_stays() {
        let counts = find(2_236_067).unwrap();
        CHANGED[4].store(7, Ordering::Relaxed);
        counts.set(5_000_000);
        assert_eq!(values(&CHANGED), [7, 5_000_000, 0, 0]);
        counts.set(2_236_067);
        assert_eq!(values(&CHANGED), [7, THROTTLED, 0, 0]);
    }

    #[test]
    fn nothing_is_found_where_the_two_numbers_are_not_close_and_once() {
        for (variables, turns) in [
            (&TWICE, 1_414_213),
            (&TWO_SECOND_ONES, 2_645_751),
            (&APART, 3_316_624),
            (&OTHER_POLICY, 1_732_050),
        ] {
            assert!(values(variables).contains(&u64::from(turns)));
            assert!(find(turns).is_none(), "{turns}");
        }
        assert!(find(1_999_999).is_none());
    }
}
