//! What is set in the environment of the program.
//!
//! OpenMP runtimes read their environment once, when the program starts, so this is the only moment at which team size
//! and waiting can be set. What the user has set stays, except for `--threads` on this command line.
//!
//! | variable | value | unless |
//! |---|---|---|
//! | `OMP_NUM_THREADS` | CPUs at launch; with `follow` and `virtual` all it may ever get | set by the user |
//! | `GOMP_SPINCOUNT` | [as many turns](SpinTurns) as fit into a short time; none for a team of fixed size that has more threads than the program may ever get CPUs | it or `OMP_WAIT_POLICY` is set |
//! | `KMP_BLOCKTIME` | [`BLOCK_TIME`] | it or `OMP_WAIT_POLICY` is set |
//! | `KMP_AFFINITY` | [`AFFINITY`] | a variable that [binds threads](BINDING) is set |
//! | `LD_PRELOAD` | the shim, before the user's, without those of other installations | there is no page, or the [loader](crate::loader) cannot load it |
//! | `OMP_TOOL_LIBRARIES` | the shim, for copies of libomp that it does not come before; in the place of another installation's | set by the user to other tools, or there is no page |
//! | `ASAN_OPTIONS` | what the user has there, with [`verify_asan_link_order=0`](ASAN_ORDER) | that is set by the user, or there is no page |
//! | `MAPPER_SCHEDULE` | `--schedule`, or what a rule of the operator says | nothing is said |
//! | `MAPPER_SPIN_TURNS` | the same as `GOMP_SPINCOUNT`, for the shim, which may let threads spin longer on CPUs that no other thread needs | there is no page, or `GOMP_SPINCOUNT` is not set here, or to 0 |
//! | `MAPPER_PAGE`, `MAPPER_TOKEN`, `MAPPER_TEAMS` | for the shim | there is no page |

use crate::shim;
use crate::waiting::SpinTurns;
use mapper_control::schema::{Terms, Threads};
use mapper_model::TeamMode;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// Milliseconds a thread of libomp spins, yielding its CPU: with 0, a barrier takes 1.5 times as long on own CPUs.
const BLOCK_TIME: &str = "1";

/// Else libomp keeps each of its threads on the CPUs that the program starts with, also without binding.
const AFFINITY: &str = "disabled";

/// Programs of gcc's `-fsanitize=address`, and those that any program starts, end if a library comes before theirs.
const ASAN_ORDER: &str = "verify_asan_link_order";

const BINDING: [&str; 4] = [
    "KMP_AFFINITY",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "GOMP_CPU_AFFINITY",
];

#[derive(Clone, Debug)]
pub(crate) struct Environment {
    entries: Vec<CString>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Assignment(CString);

#[derive(Clone, Debug)]
pub(crate) struct Runtime {
    pub(crate) shim: PathBuf,
    /// The path of the shim for the loader, unless that cannot load it.
    pub(crate) preload: Option<PathBuf>,
    /// A path to the page, valid as long as the launcher lives.
    pub(crate) page: String,
    pub(crate) token: String,
}

#[derive(Clone, Debug)]
pub(crate) struct Granted {
    pub(crate) cpu_count: u32,
    pub(crate) machine_cpus: u32,
    pub(crate) runtime: Option<Runtime>,
}

impl Assignment {
    /// `None` when name or value holds a zero byte.
    pub(crate) fn new(name: &str, value: impl AsRef<OsStr>) -> Option<Self> {
        let mut text = OsString::from(name);
        text.push("=");
        text.push(value);
        CString::new(text.into_encoded_bytes()).ok().map(Self)
    }

    pub(crate) fn parts(&self) -> (&OsStr, &OsStr) {
        let (name, value) = self.0.to_bytes().split_at(self.name().len());
        let name = name.strip_suffix(b"=").unwrap_or(name);
        (OsStr::from_bytes(name), OsStr::from_bytes(value))
    }

    fn name(&self) -> &[u8] {
        let bytes = self.0.to_bytes();
        let end = bytes.iter().position(|&byte| byte == b'=');
        &bytes[..end.map_or(bytes.len(), |end| end + 1)]
    }

    pub(crate) fn as_bytes_with_nul(&self) -> &[u8] {
        self.0.as_bytes_with_nul()
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        CString::new(bytes).ok().map(Self)
    }
}

impl Environment {
    pub(crate) const fn new(entries: Vec<CString>) -> Self {
        Self { entries }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&OsStr> {
        self.entries.iter().find_map(|entry| {
            let rest = entry.to_bytes().strip_prefix(name.as_bytes())?;
            rest.strip_prefix(b"=").map(OsStr::from_bytes)
        })
    }

    pub(crate) fn apply(&mut self, assignment: Assignment) {
        let is_same = |entry: &CString| entry.to_bytes().starts_with(assignment.name());
        let place = self.entries.iter().position(is_same);
        self.entries.retain(|entry| !is_same(entry));
        let place = place.unwrap_or(self.entries.len());
        self.entries.insert(place, assignment.0);
    }

    pub(crate) fn entries(&self) -> &[CString] {
        &self.entries
    }
}

pub(crate) fn assignments(
    terms: &Terms,
    granted: &Granted,
    spin_turns: SpinTurns,
    users: &Environment,
) -> Vec<Assignment> {
    let unset = |names: &[&str]| names.iter().all(|name| users.get(name).is_none());
    let mut set = Vec::new();
    let size = |threads| team_size(threads, most_cpus(terms, granted), granted);
    let size = terms.threads.map(size);
    if let Some(size) = size {
        set.push(Assignment::new("OMP_NUM_THREADS", size.to_string()));
    }
    let size = size.or_else(|| first_number(users.get("OMP_NUM_THREADS")?));
    if unset(&["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"]) {
        let turns = match can_have_a_cpu_each(size, terms, granted) {
            true => spin_turns,
            false => SpinTurns::NONE,
        };
        set.push(Assignment::new("GOMP_SPINCOUNT", turns.to_string()));
        if granted.runtime.is_some() && turns != SpinTurns::NONE {
            set.push(Assignment::new("MAPPER_SPIN_TURNS", turns.to_string()));
        }
    }
    if unset(&["KMP_BLOCKTIME", "OMP_WAIT_POLICY"]) {
        set.push(Assignment::new("KMP_BLOCKTIME", BLOCK_TIME));
    }
    if unset(&BINDING) {
        set.push(Assignment::new("KMP_AFFINITY", AFFINITY));
    }
    if let Some(runtime) = &granted.runtime {
        if let Some(path) = &runtime.preload {
            let preload = shim::preload(path, users.get("LD_PRELOAD"));
            set.push(Assignment::new("LD_PRELOAD", preload));
        }
        let tools = shim::tools(&runtime.shim, users.get("OMP_TOOL_LIBRARIES"));
        set.extend(tools.map(|tools| Assignment::new("OMP_TOOL_LIBRARIES", tools)));
        set.extend(asan_options(users).map(|options| Assignment::new("ASAN_OPTIONS", options)));
        set.push(Assignment::new("MAPPER_PAGE", &runtime.page));
        set.push(Assignment::new("MAPPER_TOKEN", &runtime.token));
        set.push(Assignment::new("MAPPER_TEAMS", terms.teams.as_str()));
        if let Some(schedule) = terms.schedule {
            set.push(Assignment::new("MAPPER_SCHEDULE", schedule.as_str()));
        }
    }
    set.into_iter().flatten().collect()
}

/// The value of `ASAN_OPTIONS`, unless the user decides about [`ASAN_ORDER`].
fn asan_options(users: &Environment) -> Option<OsString> {
    let mut options = users.get("ASAN_OPTIONS").unwrap_or_default().to_owned();
    let mut parts = options.as_bytes().windows(ASAN_ORDER.len());
    if parts.any(|part| part == ASAN_ORDER.as_bytes()) {
        return None;
    }
    if !options.is_empty() {
        options.push(":");
    }
    options.push(ASAN_ORDER);
    options.push("=0");
    Some(options)
}

/// Whether the threads of a team of this size, where it is known, may ever have a CPU each, so that spinning can pay.
/// Under `follow` and `virtual` the shim ensures that; other teams keep their size. (A program that turns out unable to
/// have virtual teams, with more threads than CPUs, spins the 100 turns that libgomp allows such teams.)
fn can_have_a_cpu_each(size: Option<u32>, terms: &Terms, granted: &Granted) -> bool {
    let keeps_size = terms.teams == TeamMode::Fixed || granted.runtime.is_none();
    !keeps_size || size.is_none_or(|size| size <= most_cpus(terms, granted))
}

fn most_cpus(terms: &Terms, granted: &Granted) -> u32 {
    granted.machine_cpus.min(terms.max_cpus.unwrap_or(u32::MAX))
}

fn team_size(threads: Threads, most_cpus: u32, granted: &Granted) -> u32 {
    let size = match threads {
        Threads::Count(count) => count.get(),
        Threads::All => most_cpus,
        Threads::Allocated => granted.cpu_count,
    };
    size.max(1)
}

/// The size of the outermost team in `OMP_NUM_THREADS`, which may be a list for nested teams.
fn first_number(value: &OsStr) -> Option<u32> {
    value.to_str()?.split(',').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_control::schema::Schedule;

    fn users(entries: &[&str]) -> Environment {
        Environment::new(entries.iter().map(|e| CString::new(*e).unwrap()).collect())
    }

    fn terms(teams: TeamMode, threads: &str) -> Terms {
        let threads = match threads {
            "" => Some(Threads::by_default(teams)),
            text => text.parse().ok(),
        };
        Terms {
            teams,
            teams_by: String::new(),
            threads,
            schedule: None,
            max_cpus: Some(6),
        }
    }

    fn granted() -> Granted {
        Granted {
            cpu_count: 3,
            machine_cpus: 8,
            runtime: Some(Runtime {
                shim: "/l/s.so".into(),
                preload: Some("/l/s.so".into()),
                page: "/proc/7/fd/5".into(),
                token: "00ff".into(),
            }),
        }
    }

    fn set(terms: &Terms, granted: &Granted, users: &Environment) -> Environment {
        let mut environment = users.clone();
        for assignment in assignments(terms, granted, SpinTurns::measured(), users) {
            environment.apply(assignment);
        }
        environment
    }

    fn bare() -> Granted {
        Granted {
            runtime: None,
            ..granted()
        }
    }

    fn value(name: &str, terms: &Terms, granted: &Granted, entries: &[&str]) -> Option<String> {
        let environment = set(terms, granted, &users(entries));
        Some(environment.get(name)?.to_str().unwrap().to_owned())
    }

    fn threads(terms: &Terms, granted: &Granted, entries: &[&str]) -> String {
        value("OMP_NUM_THREADS", terms, granted, entries).unwrap()
    }

    #[test]
    fn fixed_teams_have_the_size_of_the_allocation_and_following_ones_the_most_there_may_be() {
        let (fixed, follow) = (TeamMode::Fixed, TeamMode::Follow);
        for (teams, wish, size) in [
            (TeamMode::Virtual, "", "6"),
            (fixed, "", "3"),
            (follow, "", "6"),
            (follow, "alloc", "3"),
            (fixed, "all", "6"),
            (fixed, "5", "5"),
        ] {
            assert_eq!(threads(&terms(teams, wish), &granted(), &[]), size);
        }
        let entries = ["OMP_NUM_THREADS=7"];
        assert_eq!(threads(&terms(fixed, "2"), &granted(), &entries), "2");
    }

    #[test]
    fn a_team_of_fixed_size_that_outnumbers_the_cpus_it_may_get_does_not_spin() {
        let spins = |teams, size: Option<&str>| {
            let entry = size.map(|size| format!("OMP_NUM_THREADS={size}"));
            let entries: Vec<&str> = entry.iter().map(String::as_str).collect();
            let count = value("GOMP_SPINCOUNT", &terms(teams, "env"), &granted(), &entries);
            count.unwrap() != "0"
        };
        // The machine has 8, of which --max-cpus leaves 6.
        for size in ["9", "7", "9,2", " 7 , 1"] {
            assert!(!spins(TeamMode::Fixed, Some(size)), "{size}");
        }
        for size in [None, Some("6"), Some("6,9"), Some("many")] {
            assert!(spins(TeamMode::Fixed, size), "{size:?}");
        }
        // Of these as many run as there are CPUs.
        assert!(spins(TeamMode::Virtual, Some("9")));
        assert!(spins(TeamMode::Follow, Some("9")));
    }

    #[test]
    fn without_the_shim_nothing_follows() {
        assert_eq!(threads(&terms(TeamMode::Fixed, ""), &bare(), &[]), "3");
        let environment = set(&terms(TeamMode::Follow, ""), &bare(), &users(&[]));
        for name in [
            "LD_PRELOAD",
            "OMP_TOOL_LIBRARIES",
            "MAPPER_PAGE",
            "MAPPER_TOKEN",
            "MAPPER_TEAMS",
            "ASAN_OPTIONS",
        ] {
            assert_eq!(environment.get(name), None);
        }
        assert!(environment.get("GOMP_SPINCOUNT").is_some());
    }

    #[test]
    fn what_the_user_set_stays() {
        let entries = [
            "OMP_NUM_THREADS=7",
            "GOMP_SPINCOUNT=9",
            "KMP_BLOCKTIME=200",
            "OMP_TOOL_LIBRARIES=/u/tool.so",
        ];
        let environment = set(&terms(TeamMode::Fixed, "env"), &granted(), &users(&entries));
        for entry in entries {
            let (name, value) = entry.split_once('=').unwrap();
            assert_eq!(environment.get(name).unwrap(), value);
        }
        let policy = users(&["OMP_WAIT_POLICY=active"]);
        let environment = set(&terms(TeamMode::Fixed, ""), &granted(), &policy);
        assert_eq!(environment.get("GOMP_SPINCOUNT"), None);
        assert_eq!(environment.get("KMP_BLOCKTIME"), None);
        for entry in [
            "KMP_AFFINITY=compact",
            "OMP_PROC_BIND=true",
            "OMP_PLACES=cores",
        ] {
            let (name, value) = entry.split_once('=').unwrap();
            let environment = set(&terms(TeamMode::Fixed, ""), &granted(), &users(&[entry]));
            assert_eq!(environment.get(name).unwrap(), value);
            let affinity = environment.get("KMP_AFFINITY");
            assert!(affinity.is_none_or(|value| value != AFFINITY), "{entry}");
        }
    }

    #[test]
    fn the_address_sanitizer_accepts_the_shim_unless_the_user_decides() {
        let terms = terms(TeamMode::Fixed, "");
        let own = "a=1:verify_asan_link_order=1";
        for (users, options) in [
            (None, "verify_asan_link_order=0"),
            (Some(""), "verify_asan_link_order=0"),
            (
                Some("detect_leaks=0"),
                "detect_leaks=0:verify_asan_link_order=0",
            ),
            (Some(own), own),
        ] {
            let entry = users.map(|users| format!("ASAN_OPTIONS={users}"));
            let entries: Vec<&str> = entry.iter().map(String::as_str).collect();
            let found = value("ASAN_OPTIONS", &terms, &granted(), &entries);
            assert_eq!(found.unwrap(), options);
        }
    }

    #[test]
    fn the_shim_may_change_only_a_spin_count_that_was_chosen_here() {
        let turns = |granted: &Granted, entries: &[&str]| {
            let environment = set(&terms(TeamMode::Fixed, "env"), granted, &users(entries));
            let value = environment.get("MAPPER_SPIN_TURNS")?;
            assert_eq!(environment.get("GOMP_SPINCOUNT"), Some(value));
            Some(value.to_owned())
        };
        assert!(turns(&granted(), &[]).is_some());
        for users in [
            "GOMP_SPINCOUNT=400",
            "OMP_WAIT_POLICY=active",
            "OMP_NUM_THREADS=9",
        ] {
            assert_eq!(turns(&granted(), &[users]), None, "{users}");
        }
        assert_eq!(turns(&bare(), &[]), None);
    }

    #[test]
    fn a_schedule_is_set_only_if_the_terms_have_one_and_the_shim_is_there() {
        let mut adaptive = terms(TeamMode::Fixed, "");
        let schedule =
            |terms: &Terms, granted: &Granted| value("MAPPER_SCHEDULE", terms, granted, &[]);
        assert_eq!(schedule(&adaptive, &granted()), None);
        adaptive.schedule = Some(Schedule::Adaptive);
        assert_eq!(schedule(&adaptive, &granted()).as_deref(), Some("adaptive"));
        assert_eq!(schedule(&adaptive, &bare()), None);
    }

    #[test]
    fn the_rest_of_the_environment_keeps_entries_and_order() {
        let before = [
            "A=1",
            "LD_PRELOAD=/u.so",
            "odd",
            "A=2",
            "OMP_NUM_THREADSX=1",
        ];
        let before = users(&before);
        let mut after = set(&terms(TeamMode::Follow, ""), &granted(), &before);
        for name in ["GOMP_SPINCOUNT", "MAPPER_SPIN_TURNS"] {
            after.apply(Assignment::new(name, "400").unwrap());
        }
        let text: Vec<_> = after.entries.iter().map(|e| e.to_str().unwrap()).collect();
        let expected = [
            "A=1",
            "LD_PRELOAD=/l/s.so:/u.so",
            "odd",
            "A=2",
            "OMP_NUM_THREADSX=1",
            "OMP_NUM_THREADS=6",
            "GOMP_SPINCOUNT=400",
            "MAPPER_SPIN_TURNS=400",
            "KMP_BLOCKTIME=1",
            "KMP_AFFINITY=disabled",
            "OMP_TOOL_LIBRARIES=/l/s.so",
            "ASAN_OPTIONS=verify_asan_link_order=0",
            "MAPPER_PAGE=/proc/7/fd/5",
            "MAPPER_TOKEN=00ff",
            "MAPPER_TEAMS=follow",
        ];
        assert_eq!(text, expected);
    }
}
