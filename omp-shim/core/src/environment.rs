//! The environment variables that concern the shim.
//!
//! A barrier that spins while the thread it waits for has no CPU wastes a time slice: with libgomp's default of 300,000
//! turns a program ran fifty times slower. The launcher sets the waiting policy; the shim reports what is set.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mapper_abi::Runtimes;

/// Spin counts of libgomp up to this are harmless: the most that the launcher sets.
const HARMLESS_SPIN_COUNT: u64 = 3_000;
const HARMLESS_BLOCK_TIME_MS: u64 = 1;

/// A variable of the environment, by `getenv` as the runtimes read it.
pub fn variable(name: &CStr) -> Option<&'static OsStr> {
    // SAFETY: `name` is a C string. As for every caller of getenv, the program must not change its environment at the
    // same time; the runtime that is about to start reads it too.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: `getenv` returned a C string that stays valid unless the program overwrites the variable; the result is
    // used while the shim attaches.
    Some(OsStr::from_bytes(
        unsafe { CStr::from_ptr(value) }.to_bytes(),
    ))
}

/// The same as a path.
pub fn path(name: &CStr) -> Option<&'static Path> {
    variable(name).map(Path::new)
}

/// The same as text; other encodings count as absent.
pub fn text(name: &CStr) -> Option<&'static str> {
    variable(name)?.to_str()
}

/// Whether dynamic loops have growing chunks. Not with cancellation: a thread that leaves a loop early is not seen.
pub fn wants_adaptive_loops() -> bool {
    text(c"MAPPER_SCHEDULE") == Some("adaptive") && !may_be_yes(text(c"OMP_CANCELLATION"))
}

/// Whether a runtime may size teams by the load of the machine.
pub fn asks_for_dynamic_teams() -> bool {
    may_be_yes(text(c"OMP_DYNAMIC"))
}

/// Whether a runtime may read this value as yes: libgomp knows one word, libomp many. Whatever is not surely no is yes.
fn may_be_yes(value: Option<&str>) -> bool {
    value.is_some_and(|value| {
        let value = value.trim().to_ascii_lowercase();
        !["", "false", "0", "off", "no"].contains(&value.as_str())
    })
}

/// The size of an outermost team by the environment, if that says.
pub fn default_team() -> Option<u32> {
    let first = text(c"OMP_NUM_THREADS")?.split(',').next()?;
    first.trim().parse().ok()
}

/// The turns of libgomp's waiting loop that the launcher chose; none where the user did.
pub fn launchers_spin_turns() -> Option<u32> {
    text(c"MAPPER_SPIN_TURNS")?.parse().ok()
}

/// Whether libgomp's threads sleep as soon as they wait, by the variables that it reads.
pub fn libgomp_sleeps_at_once() -> bool {
    sleeps_at_once(text(c"GOMP_SPINCOUNT"), text(c"OMP_WAIT_POLICY"))
}

fn sleeps_at_once(spin_count: Option<&str>, wait_policy: Option<&str>) -> bool {
    match spin_count {
        Some(count) => leading_number(count) == Some(0),
        None => wait_policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("passive")),
    }
}

/// Which runtimes may spin for long at a barrier, by the environment.
pub fn spinning_runtimes() -> Runtimes {
    spinning(
        text(c"OMP_WAIT_POLICY"),
        text(c"GOMP_SPINCOUNT"),
        text(c"KMP_BLOCKTIME"),
    )
}

fn spinning(policy: Option<&str>, spin_count: Option<&str>, block_time: Option<&str>) -> Runtimes {
    let passive = policy.is_some_and(|policy| policy.trim().eq_ignore_ascii_case("passive"));
    // The runtime's own variable wins over OMP_WAIT_POLICY.
    let harmless = |own: Option<&str>, limit: u64| match own {
        Some(value) => leading_number(value).is_some_and(|number| number <= limit),
        None => passive,
    };
    let mut spinning = Runtimes::empty();
    let [libgomp, libomp] = [
        harmless(spin_count, HARMLESS_SPIN_COUNT),
        harmless(block_time, HARMLESS_BLOCK_TIME_MS),
    ];
    spinning.set(Runtimes::LIBGOMP, !libgomp);
    spinning.set(Runtimes::LIBOMP, !libomp);
    spinning
}

/// The number in `3000`, `10k` or `1ms`; none for `infinite`.
fn leading_number(value: &str) -> Option<u64> {
    let value = value.trim().to_ascii_lowercase();
    let digits = value
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(value.len());
    let (number, unit) = value.split_at(digits);
    let factor = match unit.trim() {
        "" | "ms" => 1,
        "k" => 1_000,
        "m" => 1_000_000,
        "g" => 1_000_000_000,
        "us" => return number.parse::<u64>().ok().map(|number| number / 1_000),
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_off_only_in_words_that_are_known() {
        assert!(!may_be_yes(None));
        for no in ["", "false", " FALSE ", "0", "off", "no"] {
            assert!(!may_be_yes(Some(no)), "{no:?}");
        }
        for yes in ["true", "TRUE", "1", "yes", "on", ".true.", "t", "what"] {
            assert!(may_be_yes(Some(yes)), "{yes}");
        }
    }

    #[test]
    fn runtimes_spin_unless_the_policy_or_their_own_variable_says_otherwise() {
        let (none, all) = (Runtimes::empty(), Runtimes::all());
        for (policy, spin_count, block_time, expected) in [
            (None, None, None, all),
            (Some("PASSIVE"), None, None, none),
            (Some("active"), None, None, all),
            (Some("passive"), Some("infinity"), Some("200"), all),
            (Some("active"), Some("3000"), Some("0"), none),
        ] {
            assert_eq!(spinning(policy, spin_count, block_time), expected);
        }
    }

    #[test]
    fn threads_sleep_at_once_without_turns_or_by_the_policy() {
        assert!(sleeps_at_once(Some("0"), Some("active")));
        assert!(sleeps_at_once(None, Some(" PASSIVE")));
        assert!(!sleeps_at_once(Some("1"), Some("passive")));
        assert!(!sleeps_at_once(None, None));
    }

    #[test]
    fn numbers_are_read_with_the_units_of_the_runtimes() {
        for (text, number) in [
            ("30k", Some(30_000)),
            (" 1ms ", Some(1)),
            ("500us", Some(0)),
            ("5 G", Some(5_000_000_000)),
            ("99999999999999999999", None),
            ("infinite", None),
        ] {
            assert_eq!(leading_number(text), number, "{text}");
        }
    }
}
