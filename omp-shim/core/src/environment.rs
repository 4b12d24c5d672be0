//! The environment variables that concern the shim.
//!
//! *Waiting.* A barrier that spins while the thread it waits for has no CPU wastes a whole time slice;
//! with 300,000 turns, libgomp's default, a program confined to fewer CPUs than threads has been seen
//! to run fifty times slower. The launcher therefore sets the waiting policy before exec. The shim
//! only looks whether somebody did, so that the daemon knows whom it may shrink.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use mapper_abi::Runtimes;

/// Spin counts of libgomp up to this are harmless enough: the most that the launcher sets. A hundred
/// times as much, the default, has been measured to slow a confined program fiftyfold.
const HARMLESS_SPIN_COUNT: u64 = 3_000;
/// Block times of libomp up to this are harmless.
const HARMLESS_BLOCK_TIME_MS: u64 = 1;

/// A variable of the environment. Read with `getenv`, as the runtimes do, so that both see the same.
pub fn variable(name: &CStr) -> Option<&'static OsStr> {
    // SAFETY: `name` is a C string. As for every caller of getenv, the program must not change its
    // environment at the same time; the runtime that is about to start reads it as well.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: `getenv` returned a C string inside the environment, which stays valid unless the
    // program overwrites the variable; the result is used at once, while the shim attaches.
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

/// Whether dynamic loops are to have chunks that grow. Not with cancellation: a thread that leaves a
/// loop early would not be seen to.
pub fn wants_adaptive_loops() -> bool {
    text(c"MAPPER_SCHEDULE") == Some("adaptive") && !may_be_yes(text(c"OMP_CANCELLATION"))
}

/// Whether a runtime may have been asked to size teams by the load of the machine.
pub fn asks_for_dynamic_teams() -> bool {
    may_be_yes(text(c"OMP_DYNAMIC"))
}

/// Whether a runtime may take this value of a variable for yes: libgomp knows one word for it, libomp many and
/// their abbreviations. What is not surely no is yes.
fn may_be_yes(value: Option<&str>) -> bool {
    value.is_some_and(|value| {
        let value = value.trim().to_ascii_lowercase();
        !["", "false", "0", "off", "no"].contains(&value.as_str())
    })
}

/// The size of an outermost team by the environment; nothing where that does not say.
pub fn default_team() -> Option<u32> {
    let first = text(c"OMP_NUM_THREADS")?.split(',').next()?;
    first.trim().parse().ok()
}

/// The turns of libgomp's waiting loop that the launcher chose; nothing where the user did.
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

/// Which of the runtimes may spin for long at a barrier, judging by the environment.
pub fn spinning_runtimes() -> Runtimes {
    spinning(WaitSettings {
        wait_policy: text(c"OMP_WAIT_POLICY"),
        spin_count: text(c"GOMP_SPINCOUNT"),
        block_time: text(c"KMP_BLOCKTIME"),
    })
}

/// The settings that govern waiting.
#[derive(Clone, Copy, Default)]
struct WaitSettings<'a> {
    wait_policy: Option<&'a str>,
    spin_count: Option<&'a str>,
    block_time: Option<&'a str>,
}

fn spinning(settings: WaitSettings<'_>) -> Runtimes {
    let passive = settings
        .wait_policy
        .is_some_and(|policy| policy.trim().eq_ignore_ascii_case("passive"));
    // Where both are set, the runtime's own variable wins over OMP_WAIT_POLICY.
    let harmless = |own: Option<&str>, limit: u64| match own {
        Some(value) => leading_number(value).is_some_and(|number| number <= limit),
        None => passive,
    };
    let mut spinning = Runtimes::empty();
    spinning.set(
        Runtimes::LIBGOMP,
        !harmless(settings.spin_count, HARMLESS_SPIN_COUNT),
    );
    spinning.set(
        Runtimes::LIBOMP,
        !harmless(settings.block_time, HARMLESS_BLOCK_TIME_MS),
    );
    spinning
}

/// The number in `3000`, `10k` or `1ms`; nothing for `infinite`.
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
        "us" => {
            return number
                .parse::<u64>()
                .ok()
                .map(|microseconds| microseconds / 1000);
        }
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_setting_is_off_only_if_that_is_said_in_words_that_are_known() {
        for no in [
            None,
            Some(""),
            Some("false"),
            Some(" FALSE "),
            Some("0"),
            Some("off"),
            Some("no"),
        ] {
            assert!(!may_be_yes(no), "{no:?}");
        }
        for yes in ["true", "TRUE", "1", "yes", "on", ".true.", "t", "what"] {
            assert!(may_be_yes(Some(yes)), "{yes}");
        }
    }

    #[test]
    fn by_default_both_runtimes_spin() {
        assert_eq!(spinning(WaitSettings::default()), Runtimes::all());
    }

    #[test]
    fn a_passive_policy_calms_both() {
        let settings = WaitSettings {
            wait_policy: Some("PASSIVE"),
            ..WaitSettings::default()
        };
        assert_eq!(spinning(settings), Runtimes::empty());
        let settings = WaitSettings {
            wait_policy: Some("active"),
            ..WaitSettings::default()
        };
        assert_eq!(spinning(settings), Runtimes::all());
    }

    #[test]
    fn the_own_variable_of_a_runtime_wins() {
        let settings = WaitSettings {
            wait_policy: Some("passive"),
            spin_count: Some("infinity"),
            block_time: Some("200"),
        };
        assert_eq!(spinning(settings), Runtimes::all());
        let settings = WaitSettings {
            wait_policy: Some("active"),
            spin_count: Some("3000"),
            block_time: Some("0"),
        };
        assert_eq!(spinning(settings), Runtimes::empty());
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
        assert_eq!(leading_number("30k"), Some(30_000));
        assert_eq!(leading_number(" 1ms "), Some(1));
        assert_eq!(leading_number("500us"), Some(0));
        assert_eq!(leading_number("5 G"), Some(5_000_000_000));
        assert_eq!(leading_number("99999999999999999999"), None);
        assert_eq!(leading_number("infinite"), None);
    }
}
