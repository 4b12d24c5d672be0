//! The command line.

use crate::failure::Failure;
use crate::naming::name_of;
use crate::report::Detail;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, ValueHint};
use mapper_control::schema::{
    MemoryPolicy, Partition, RuntimeChoice, Schedule, TeamsWish, Threads, Wish, Wishes,
};
use mapper_model::{AppName, CpuRange, Lending, Qos, Resizing, TeamMode, Weight};
use std::ffi::OsString;
use std::path::PathBuf;

const LIMITS: &str = "Limits";
const OPENMP: &str = "OpenMP";
const EXPERT: &str = "Expert";

/// Starts a program under mapperd, which gives it CPUs of its own.
///
/// The exit status is the program's; 128 + n if signal n ended it, 127 if it was not found, 126 if
/// it could not be executed, 125 if it was not started for another reason.
#[derive(Debug, Parser)]
#[command(name = "mapper-launch", version, max_term_width = 100)]
pub struct CommandLine {
    /// Name of the application [default: the program's file name; of an interpreter, the script's]
    #[arg(long, value_name = "NAME")]
    name: Option<AppName>,

    /// Share of its fair-share performance that the program is promised, such as 0.85 or 85%
    /// [default: 0.85, or what a rule of the operator says]
    #[arg(long, value_name = "SHARE", allow_negative_numbers = true)]
    qos: Option<Qos>,

    /// Print at the end what the program got: its promise, what it achieved, CPU-seconds
    #[arg(long)]
    report: bool,

    /// Print nothing at the end on a terminal
    #[arg(long, conflicts_with = "report")]
    quiet: bool,

    /// Without a daemon, run the program unmanaged
    #[arg(long)]
    fallback: bool,

    /// How much the program counts when fair shares are computed
    #[arg(
        long,
        value_name = "WEIGHT",
        default_value = "1",
        allow_negative_numbers = true,
        help_heading = LIMITS
    )]
    weight: Weight,

    /// The fewest CPUs the program needs
    #[arg(long, value_name = "N", default_value = "1", value_parser = whole_number, allow_negative_numbers = true, help_heading = LIMITS)]
    min_cpus: u32,

    /// The most CPUs the program can use
    #[arg(long, value_name = "N", value_parser = whole_number, allow_negative_numbers = true, help_heading = LIMITS)]
    max_cpus: Option<u32>,

    /// Keep the number of CPUs it starts with
    #[arg(long, help_heading = LIMITS)]
    no_resize: bool,

    /// Keep its CPUs to itself even while it is idle
    #[arg(long, help_heading = LIMITS)]
    no_lend: bool,

    /// Sizes of its OpenMP teams [default: auto]
    #[arg(long, value_name = "MODE", value_parser = teams(), help_heading = OPENMP)]
    teams: Option<TeamsWish>,

    /// Find out which modes of --teams the program tolerates on this machine, by running it many
    /// times, and record it for later launches; needs no daemon
    #[arg(long, help_heading = OPENMP)]
    check_teams: bool,

    /// OpenMP threads to start with: `alloc`, as many as CPUs at launch; `all` CPUs it may ever
    /// get; or a number [default: alloc with fixed teams, else all; OMP_NUM_THREADS if set]
    #[arg(long, value_name = "alloc|all|N", allow_negative_numbers = true, help_heading = OPENMP)]
    threads: Option<Threads>,

    /// Dynamic loops [default: as-written; MAPPER_SCHEDULE if set]
    #[arg(long, value_name = "KIND", value_parser = schedule(), help_heading = OPENMP)]
    schedule: Option<Schedule>,

    /// Leave the program's OpenMP runtime alone (no preloaded shim, no shared page)
    #[arg(long, help_heading = OPENMP)]
    no_runtime: bool,

    /// Memory on NUMA machines; all but `keep` need a daemon with control groups
    #[arg(long, value_name = "POLICY", default_value = "keep", value_parser = memory(), help_heading = EXPERT)]
    mem: MemoryPolicy,

    /// Nothing else runs on its CPUs, not even the rest of the system, and the kernel does not balance its
    /// threads: mapper spreads them; needs the administrator's permission and a daemon with control groups
    #[arg(long, help_heading = EXPERT)]
    isolated: bool,

    /// Start no daemon where none runs [also: MAPPER_NO_START=1]
    #[arg(long, help_heading = EXPERT)]
    no_start: bool,

    /// The daemon's socket [default: MAPPER_SOCKET, the system's daemon, the user's daemon]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = EXPERT)]
    socket: Option<PathBuf>,

    /// The OpenMP shim [default: MAPPER_SHIM, libmapper_omp.so where mapper is installed]
    #[arg(long, value_name = "PATH", value_hint = ValueHint::FilePath, help_heading = EXPERT)]
    shim: Option<PathBuf>,

    /// The program and its arguments
    #[arg(
        required = true,
        trailing_var_arg = true,
        value_names = ["PROGRAM", "ARGS"],
        num_args = 1..,
        value_hint = ValueHint::AnyPath,
    )]
    command: Vec<OsString>,
}

fn teams() -> impl TypedValueParser<Value = TeamsWish> {
    listed([
        ("fixed", "as large as at launch: for any program"),
        (
            "virtual",
            "as large as the program expects, on as many CPUs as it has: for programs of gcc",
        ),
        (
            "follow",
            "as large as the allocation at every parallel region: for programs that tolerate OMP_DYNAMIC=true",
        ),
        (
            "auto",
            "what --check-teams found out, a rule of the operator or mapper's list says; else virtual where that is possible",
        ),
    ])
    .try_map(|text| match text.as_str() {
        "auto" => Ok(TeamsWish::Auto),
        mode => mode.parse().map(TeamsWish::Named),
    })
}

fn schedule() -> impl TypedValueParser<Value = Schedule> {
    listed([
        ("as-written", "in chunks of the size that the program says"),
        (
            "adaptive",
            "in chunks that grow while they take less than a millisecond: for programs that do not depend on chunk sizes and their order",
        ),
    ])
    .try_map(|text| text.parse::<Schedule>())
}

fn memory() -> impl TypedValueParser<Value = MemoryPolicy> {
    listed([
        ("keep", "where it was first touched"),
        ("local", "follows the CPUs"),
        ("interleave", "spread over the nodes of the CPUs"),
    ])
    .try_map(|text| text.parse::<MemoryPolicy>())
}

/// Values that help and completions show.
fn listed<const N: usize>(values: [(&'static str, &'static str); N]) -> PossibleValuesParser {
    PossibleValuesParser::new(values.map(|(value, help)| PossibleValue::new(value).help(help)))
}

fn whole_number(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "give a whole number from 1".into())
}

#[derive(Debug)]
pub(crate) struct Arguments {
    /// What to request of the daemon, without the environment.
    pub(crate) wishes: Wishes,
    // The flags of these names.
    pub(crate) check_teams: bool,
    pub(crate) fallback: bool,
    pub(crate) no_start: bool,
    /// What is printed at the end.
    pub(crate) detail: Option<Detail>,
    pub(crate) socket: Option<PathBuf>,
    pub(crate) shim: Option<PathBuf>,
    pub(crate) command: Vec<OsString>,
}

#[derive(Debug)]
pub(crate) enum Parsed {
    Start(Box<Arguments>),
    Tell(String),
}

/// The definition of the command line, for the manual.
pub(crate) fn definition() -> clap::Command {
    CommandLine::command()
}

pub(crate) fn parse(words: &[OsString]) -> Result<Parsed, Failure> {
    let line = match CommandLine::try_parse_from(words) {
        Ok(line) => line,
        Err(error) => {
            let text = error.to_string();
            return match error.kind() {
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => Ok(Parsed::Tell(text)),
                _ => Err(Failure::own(text.strip_prefix("error: ").unwrap_or(&text))),
            };
        }
    };
    Ok(Parsed::Start(Box::new(Arguments::of(line)?)))
}

impl Arguments {
    /// What a command line asks for.
    pub(crate) fn of(line: CommandLine) -> Result<Self, Failure> {
        let cpus = CpuRange::new(line.min_cpus, line.max_cpus).map_err(Failure::own)?;
        let fixed = TeamsWish::Named(TeamMode::Fixed);
        let teams = line.teams.filter(|teams| *teams != fixed);
        let needs = if line.check_teams {
            Some("--check-teams checks".to_owned())
        } else if let Some(teams) = teams {
            let mode = teams.mode().map_or("auto", TeamMode::as_str);
            Some(format!("--teams {mode} needs"))
        } else if line.schedule == Some(Schedule::Adaptive) {
            Some("--schedule adaptive needs".to_owned())
        } else {
            None
        };
        if let Some(needs) = needs.filter(|_| line.no_runtime) {
            return Err(Failure::own(format!(
                "{needs} the runtime interface, which --no-runtime turns off; leave one of them out"
            )));
        }
        let name = line.name.unwrap_or_else(|| name_of(&line.command));
        Ok(Self {
            wishes: Wishes {
                name,
                qos: line.qos,
                weight: line.weight,
                cpus,
                resizing: match line.no_resize {
                    true => Resizing::Never,
                    false => Resizing::Allowed,
                },
                lending: line.no_lend.then_some(Lending::Never),
                teams: line.teams,
                threads: Wish::of(line.threads),
                schedule: Wish::of(line.schedule),
                runtime: line.no_runtime.then_some(RuntimeChoice::Off),
                memory: line.mem,
                partition: line.isolated.then_some(Partition::Isolated),
            },
            check_teams: line.check_teams,
            fallback: line.fallback,
            no_start: line.no_start,
            detail: match (line.report, line.quiet) {
                (true, _) => Some(Detail::Full),
                (_, true) => None,
                _ => Detail::on_terminal(),
            },
            socket: line.socket,
            shim: line.shim,
            command: line.command,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(line: &[&str]) -> Arguments {
        let words: Vec<_> = std::iter::once(&"mapper-launch").chain(line).collect();
        let words: Vec<OsString> = words.into_iter().map(Into::into).collect();
        match parse(&words) {
            Ok(Parsed::Start(arguments)) => *arguments,
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn the_programs_own_words_are_left_alone() {
        let own = &["p", "--qos", "7", "--", "-x"][..];
        for (line, command) in [
            (&["--", "p", "--qos", "7", "--", "-x"][..], own),
            (own, own),
            (&["--qos", "0.5", "p", "-h"], &["p", "-h"]),
            (&["--", "--help"], &["--help"]),
            (&["--", "p", "", "--version"], &["p", "", "--version"]),
            (&["--", "--", "p"], &["--", "p"]),
        ] {
            assert_eq!(arguments(line).command, command, "{line:?}");
        }
    }

    #[test]
    fn a_negative_number_is_refused_with_what_is_accepted() {
        for (flag, says) in [
            ("--qos", "above 0"),
            ("--weight", "0.01 to 100"),
            ("--min-cpus", "from 1"),
            ("--max-cpus", "from 1"),
            ("--threads", "alloc"),
        ] {
            let words = ["mapper-launch", flag, "-1", "--", "p"].map(OsString::from);
            let error = format!("{:?}", parse(&words).unwrap_err());
            for says in [says, "-1"] {
                assert!(error.contains(says), "{flag}: {error}");
            }
            assert!(!error.contains("'-- -1'"), "{flag}: {error}");
        }
    }

    #[test]
    fn the_help_shows_the_default_promise() {
        let help = definition().render_long_help().to_string();
        let shown = format!("[default: {},", Qos::default());
        assert!(help.contains(&shown), "{help}");
    }

    #[test]
    fn the_name_is_the_programs_file_name() {
        assert_eq!(arguments(&["/opt/x y/fft 2"]).wishes.name.as_str(), "fft_2");
        assert_eq!(arguments(&["--name", "a", "b"]).wishes.name.as_str(), "a");
        assert_eq!(arguments(&["/"]).wishes.name.as_str(), "_");
    }

    #[test]
    fn every_flag_is_understood() {
        let flags = "--qos=0.7 --weight 2 --min-cpus 2 --max-cpus 3 --no-resize --teams fixed --threads 4 \
             --schedule as-written --no-runtime --fallback --report --isolated --socket /s --shim /l.so -- p";
        let arguments = arguments(&flags.split(' ').collect::<Vec<_>>());
        let wishes = &arguments.wishes;
        assert_eq!(wishes.qos.map(Qos::get), Some(0.7));
        assert_eq!(wishes.cpus.max(), Some(3));
        assert_eq!(wishes.resizing, Resizing::Never);
        assert_eq!(wishes.teams, Some(TeamsWish::Named(TeamMode::Fixed)));
        assert_eq!(wishes.schedule, Wish::Asked(Schedule::AsWritten));
        assert_eq!(wishes.threads, Wish::of("4".parse().ok()));
        assert_eq!(wishes.runtime, Some(RuntimeChoice::Off));
        assert_eq!(wishes.partition, Some(Partition::Isolated));
        assert!(arguments.fallback && arguments.detail == Some(Detail::Full));
    }

    #[test]
    fn what_is_not_given_is_left_open() {
        let name = AppName::new("p").unwrap();
        assert_eq!(arguments(&["p"]).wishes, Wishes::named(name));
    }
}
