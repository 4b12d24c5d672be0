//! How many threads an outermost region may have.
//!
//! A pure decision, so that the rules stand in one place. They come from what was seen to go wrong
//! when teams are shrunk under programs that do not expect it:
//!
//! - a team size that the program asked for by a `num_threads` clause, by `omp_set_num_threads` or
//!   under `omp_set_dynamic(0)` is exact;
//! - the first region of a thread has its full team, since programs size arrays by it;
//! - no team is larger than the one the program would use by itself;
//! - regions inside other regions are left alone.

use mapper_abi::TeamsOff;

/// What is known when a region begins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<E: FnOnce() -> Option<TeamsOff>> {
    /// `num_threads` as the compiler passes it: 0 for unspecified.
    pub(crate) asked: u32,
    /// Says why the program's teams are exact by an earlier call of its own, if they are. Asked only
    /// when the team would shrink, which is rare.
    pub(crate) exact: E,
    /// It is the thread's first region.
    pub(crate) first: bool,
    /// The team that the program would use by itself.
    pub(crate) initial_max: u32,
    /// The size that the allocation allows.
    pub(crate) limit: u32,
}

/// What to do with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing: the size is the program's business, for this reason if there is one to report.
    Untouched(Option<TeamsOff>),
    /// Nothing: the allocation suffices for the full team.
    Full,
    /// If the region is an outermost one, give it this many threads.
    Lower(u32),
}

/// Decides on a region.
#[inline(always)]
pub(crate) fn decide<E: FnOnce() -> Option<TeamsOff>>(request: Request<E>) -> Verdict {
    match request.asked {
        0 if request.first || request.limit >= request.initial_max => Verdict::Full,
        0 => match (request.exact)() {
            None => Verdict::Lower(request.limit.max(1)),
            reason => Verdict::Untouched(reason),
        },
        // What compilers pass for a false `if` clause.
        1 => Verdict::Untouched(None),
        _ => Verdict::Untouched(Some(TeamsOff::Clause)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain() -> Request<fn() -> Option<TeamsOff>> {
        Request {
            asked: 0,
            exact: || None,
            first: false,
            initial_max: 8,
            limit: 3,
        }
    }

    #[test]
    fn a_region_of_unspecified_size_gets_what_the_allocation_allows() {
        assert_eq!(decide(plain()), Verdict::Lower(3));
        assert_eq!(
            decide(Request {
                limit: 0,
                ..plain()
            }),
            Verdict::Lower(1)
        );
    }

    #[test]
    fn a_team_never_exceeds_what_the_program_would_use() {
        for limit in [8, 9, u32::MAX] {
            assert_eq!(decide(Request { limit, ..plain() }), Verdict::Full);
        }
    }

    #[test]
    fn the_first_region_has_its_full_team() {
        assert_eq!(
            decide(Request {
                first: true,
                ..plain()
            }),
            Verdict::Full
        );
    }

    #[test]
    fn what_the_program_asks_for_is_exact() {
        let clause = decide(Request {
            asked: 4,
            ..plain()
        });
        assert_eq!(clause, Verdict::Untouched(Some(TeamsOff::Clause)));
        assert_eq!(
            decide(Request {
                asked: 1,
                ..plain()
            }),
            Verdict::Untouched(None)
        );
        for reason in [TeamsOff::SetNumThreads, TeamsOff::SetDynamic] {
            let set = Request {
                exact: || Some(reason),
                asked: 0,
                first: false,
                initial_max: 8,
                limit: 3,
            };
            assert_eq!(decide(set), Verdict::Untouched(Some(reason)));
        }
    }
}
