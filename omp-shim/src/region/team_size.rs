//! How many threads an outermost region may have.
//!
//! The rules come from what went wrong when teams shrink under programs that do not expect it:
//!
//! - a size requested by a `num_threads` clause, by `omp_set_num_threads` or under `omp_set_dynamic(0)` is exact;
//! - the first region of a thread has its full team, since programs size arrays by it;
//! - no team is larger than the one the program would use by itself;
//! - regions inside other regions are left alone.

use mapper_abi::TeamsOff;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<E: FnOnce() -> Option<TeamsOff>> {
    /// `num_threads` as the compiler passes it: 0 for unspecified.
    pub(crate) asked: u32,
    /// Why an earlier call makes the program's teams exact, if so; called only when the team would shrink.
    pub(crate) exact: E,
    pub(crate) first: bool,
    pub(crate) initial_max: u32,
    pub(crate) limit: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// Nothing: the size is the program's business, for this reason if there is one to report.
    Untouched(Option<TeamsOff>),
    /// Nothing: the allocation suffices for the full team.
    Full,
    /// If the region is an outermost one, give it this many threads.
    Lower(u32),
}

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
    fn a_region_gets_what_the_allocation_allows_within_the_rules() {
        let with = |asked, first, limit| Request {
            asked,
            first,
            limit,
            ..plain()
        };
        let clause = Verdict::Untouched(Some(TeamsOff::Clause));
        for (request, verdict) in [
            (plain(), Verdict::Lower(3)),
            (with(0, false, 0), Verdict::Lower(1)),
            // No larger than the program would use.
            (with(0, false, 8), Verdict::Full),
            (with(0, false, 9), Verdict::Full),
            (with(0, false, u32::MAX), Verdict::Full),
            (with(0, true, 3), Verdict::Full),
            (with(4, false, 3), clause),
            (with(1, false, 3), Verdict::Untouched(None)),
        ] {
            assert_eq!(decide(request), verdict, "{request:?}");
        }
    }

    #[test]
    fn what_the_program_set_is_exact() {
        for reason in [TeamsOff::SetNumThreads, TeamsOff::SetDynamic] {
            let set = Request {
                asked: 0,
                exact: || Some(reason),
                first: false,
                initial_max: 8,
                limit: 3,
            };
            assert_eq!(decide(set), Verdict::Untouched(Some(reason)));
        }
    }
}
