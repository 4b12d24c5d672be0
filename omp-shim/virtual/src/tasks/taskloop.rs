//! How `taskloop` divides a loop among tasks, as libgomp does.

/// How gcc says into how many tasks a loop is to be divided.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Wish {
    Tasks(u64),
    /// Iterations for each task, at least.
    Grain(u64),
    /// Exactly, but for the last.
    StrictGrain(u64),
}

/// A loop of so many iterations in so many tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Parts {
    pub(super) count: u64,
    iterations: u64,
    /// Iterations of each task, if that is prescribed.
    grain: Option<u64>,
}

impl Parts {
    /// For a team of that size.
    pub(super) fn of(iterations: u64, wish: Wish, team: u32) -> Self {
        let (count, grain) = match wish {
            Wish::Tasks(0) => (u64::from(team), None),
            Wish::Tasks(tasks) => (tasks, None),
            Wish::Grain(grain) => (iterations / grain.max(1), None),
            Wish::StrictGrain(grain) => (iterations.div_ceil(grain.max(1)), Some(grain.max(1))),
        };
        Self {
            count: count.clamp(1, iterations.max(1)),
            iterations,
            grain,
        }
    }

    /// The number of the first iteration of a part; of the one behind the last, that of iterations.
    pub(super) fn first(self, part: u64) -> u64 {
        if let Some(grain) = self.grain {
            return part.saturating_mul(grain).min(self.iterations);
        }
        let (each, more) = (self.iterations / self.count, self.iterations % self.count);
        part * each + part.min(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(iterations: u64, wish: Wish) -> Vec<u64> {
        let parts = Parts::of(iterations, wish, 4);
        (0..parts.count)
            .map(|part| parts.first(part + 1) - parts.first(part))
            .collect()
    }

    #[test]
    fn a_loop_is_divided_evenly_unless_the_grain_is_strict() {
        assert_eq!(lengths(10, Wish::Tasks(0)), [3, 3, 2, 2]);
        assert_eq!(lengths(10, Wish::Tasks(3)), [4, 3, 3]);
        assert_eq!(lengths(3, Wish::Tasks(7)), [1, 1, 1]);
        assert_eq!(lengths(10, Wish::Grain(4)), [5, 5]);
        assert_eq!(lengths(10, Wish::Grain(20)), [10]);
        assert_eq!(lengths(10, Wish::StrictGrain(4)), [4, 4, 2]);
        assert_eq!(lengths(10, Wish::StrictGrain(20)), [10]);
    }

    #[test]
    fn the_longest_loops_do_not_overflow() {
        for wish in [
            Wish::Tasks(7),
            Wish::Grain(1 << 62),
            Wish::StrictGrain(1 << 63),
        ] {
            let parts = Parts::of(u64::MAX, wish, 4);
            assert_eq!(parts.first(parts.count), u64::MAX, "{wish:?}");
        }
    }
}
