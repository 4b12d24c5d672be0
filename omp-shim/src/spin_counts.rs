//! Where a libgomp keeps how long its threads spin at a barrier before they sleep.
//!
//! *Problem.* libgomp reads `GOMP_SPINCOUNT` once, at start, and offers no call that changes it. Whether it
//! pays to spin depends on the CPUs that the program has, and those change.
//!
//! *Approach.* Since gcc 4.4 libgomp keeps two counts of turns, side by side in 64 bits each
//! (`gomp_spin_count_var` and `gomp_throttled_spin_count_var` in its `env.c`), and reads one of them anew
//! at each wait: the second one when it runs more threads than it had CPUs at start. Their names are not
//! exported, but their values are known: the launcher chose the first, and the second is
//! [`THROTTLED`] whenever the first is not less. So the variables of the library are searched for these two
//! numbers beside each other.
//!
//! *Unit.* Turns of libgomp's waiting loop.
//!
//! *Invariants.* Only where exactly one place holds the two numbers is it taken for what is sought;
//! anything else (a libgomp of another kind, a user's `OMP_WAIT_POLICY`) is left as it is, and with it the
//! count that the launcher chose. A word is changed only from what it was left at. The library is never
//! unloaded.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::elf;

/// The count for programs with more threads than CPUs, unless `OMP_WAIT_POLICY` is set.
const THROTTLED: u64 = 100;

/// The two counts of one libgomp.
#[derive(Debug)]
pub(crate) struct SpinCounts {
    usual: Count,
    throttled: Count,
}

/// A count and what it was before it was ever changed.
#[derive(Debug)]
struct Count {
    word: &'static AtomicU64,
    first: u64,
}

impl SpinCounts {
    /// Those of the library that `address` lies in, which was started with so many turns.
    ///
    /// # Safety
    /// The library is never unloaded.
    pub(crate) unsafe fn find(address: usize, turns: u32) -> Option<Self> {
        let usual = u64::from(turns);
        if usual < THROTTLED {
            return None;
        }
        let mut places = Vec::new();
        let mut before: Option<(usize, u64)> = None;
        elf::each_variable_word(address, |word| {
            // SAFETY: a word of the library's variables: mapped, aligned, and as long as the library, which
            // the caller vouches for. It may be written by others at the same time, hence the atomic.
            let value = unsafe { AtomicU64::from_ptr(word) }.load(Ordering::Relaxed);
            let here = (word as usize, value);
            if let Some(last) = before.replace(here)
                && last.0 + size_of::<u64>() == here.0
            {
                match (last.1, here.1) {
                    (THROTTLED, found) if found == usual => places.push((here.0, last.0)),
                    (found, THROTTLED) if found == usual => places.push((last.0, here.0)),
                    _ => {}
                }
            }
        });
        let [(usual_place, throttled_place)] = *places else {
            return None;
        };
        let count = |place: usize, first: u64| Count {
            // SAFETY: as above; the module writes it once, in its constructor, which has run, for its
            // functions can be called.
            word: unsafe { AtomicU64::from_ptr(place as *mut u64) },
            first,
        };
        Some(Self {
            usual: count(usual_place, usual),
            throttled: count(throttled_place, THROTTLED),
        })
    }

    /// Has threads that begin to wait from now on spin for so many turns, whether libgomp thinks it has CPUs
    /// for them or not.
    pub(crate) fn lengthen(&self, turns: u32) {
        for count in [&self.usual, &self.throttled] {
            let _ = count.change(count.first, u64::from(turns));
        }
    }

    /// Puts back what [`lengthen`](Self::lengthen) changed.
    pub(crate) fn restore(&self, turns: u32) {
        for count in [&self.usual, &self.throttled] {
            let _ = count.change(u64::from(turns), count.first);
        }
    }

    /// Whether these are the counts of the same library.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        core::ptr::eq(self.usual.word, other.usual.word)
    }
}

impl Count {
    fn change(&self, from: u64, to: u64) -> Result<u64, u64> {
        if self.word.load(Ordering::Relaxed) == to {
            return Ok(to);
        }
        // libgomp reads it as a plain variable, at each wait; an aligned word is never seen half written.
        self.word
            .compare_exchange(from, to, Ordering::Relaxed, Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Variables with nothing known beside them.
    type Variables = [AtomicU64; 6];

    const fn variables(values: [u64; 4]) -> Variables {
        let [a, b, c, d] = values;
        [
            AtomicU64::new(0),
            AtomicU64::new(a),
            AtomicU64::new(b),
            AtomicU64::new(c),
            AtomicU64::new(d),
            AtomicU64::new(0),
        ]
    }

    /// As libgomp's variables lie, in either order, with a number that occurs nowhere else.
    static DOWNWARDS: Variables = variables([THROTTLED, 2_718_281, 0, 0]);
    static UPWARDS: Variables = variables([3_141_592, THROTTLED, 0, 0]);
    static CHANGED: Variables = variables([2_236_067, THROTTLED, 0, 0]);
    static TWICE: Variables = variables([1_414_213, THROTTLED, 1_414_213, THROTTLED]);
    static APART: Variables = variables([THROTTLED, 0, 2_645_751, 0]);
    static OTHER_POLICY: Variables = variables([0, 1_732_050, 0, 0]);

    fn find(turns: u32) -> Option<SpinCounts> {
        // SAFETY: it is the test program itself.
        unsafe { SpinCounts::find(find as *const () as usize, turns) }
    }

    fn values(variables: &Variables) -> [u64; 4] {
        let [_, a, b, c, d, _] = variables
            .each_ref()
            .map(|word| word.load(Ordering::Relaxed));
        [a, b, c, d]
    }

    #[test]
    fn both_counts_are_found_changed_and_put_back() {
        for (variables, turns) in [(&DOWNWARDS, 2_718_281), (&UPWARDS, 3_141_592)] {
            let before = values(variables);
            let counts = find(turns).unwrap();
            for _ in 0..2 {
                counts.lengthen(5_000_000);
                assert_eq!(values(variables), [5_000_000, 5_000_000, 0, 0]);
            }
            for _ in 0..2 {
                counts.restore(5_000_000);
                assert_eq!(values(variables), before);
            }
        }
    }

    #[test]
    fn what_somebody_else_has_changed_stays() {
        let counts = find(2_236_067).unwrap();
        CHANGED[1].store(7, Ordering::Relaxed);
        counts.lengthen(5_000_000);
        assert_eq!(values(&CHANGED), [7, 5_000_000, 0, 0]);
        counts.restore(5_000_000);
        assert_eq!(values(&CHANGED), [7, THROTTLED, 0, 0]);
    }

    #[test]
    fn nothing_is_found_where_the_two_numbers_are_not_once_side_by_side() {
        for (variables, turns) in [
            (&TWICE, 1_414_213),
            (&APART, 2_645_751),
            (&OTHER_POLICY, 1_732_050),
        ] {
            assert!(values(variables).contains(&u64::from(turns)));
            assert!(find(turns).is_none(), "{turns}");
        }
        assert!(find(1_999_999).is_none());
    }
}
