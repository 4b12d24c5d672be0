//! A program is to start, and has ended.

use crate::PROTOCOL;
use crate::schema::{
    MemoryPolicy, Partition, Program, RuntimeChoice, Schedule, TeamsWish, Terms, Threads, Wish,
    Wishes, check_pid, one,
};
use mapper_model::bounds::OutOfRange;
use mapper_model::{AppId, AppName, CpuRange, CpuSet, Lending, Qos, Resizing, TeamMode, Weight};
use serde::{Deserialize, Serialize};

/// The longest command line that is passed on; longer ones are cut.
const MAX_COMMAND_BYTES: usize = 1024;

/// `Launch`: a process that waits to exec is to be managed.
///
/// The daemon checks that the process is a child of the caller and belongs to the caller's user. The connection is
/// the application's lease: when it closes, the launcher has ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "LaunchWire", into = "LaunchWire")]
pub struct LaunchRequest {
    /// The process that will exec the program; a child of the caller.
    pub pid: u32,
    /// The command line, for people to read.
    pub command: String,
    /// What the user requests. If the name is taken, the daemon adds a number to it.
    pub wishes: Wishes,
    /// Whether the launcher has the library of the runtime interface.
    pub shim: ShimFile,
    /// The file that is started, if the launcher could read it.
    pub program: Option<Program>,
}

/// Whether the launcher has found the shim, the library of the runtime interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShimFile {
    /// It has, or did not search since the user does not want it.
    #[default]
    Found,
    /// It has not: the program runs without the runtime interface.
    Missing,
}

impl LaunchRequest {
    /// A request of a launcher that has the shim and knows nothing of the program. Joins the words of the command line
    /// and cuts it if it is too long.
    pub fn new<'w>(pid: u32, words: impl IntoIterator<Item = &'w str>, wishes: Wishes) -> Self {
        let words: Vec<_> = words.into_iter().collect();
        Self {
            pid,
            command: cut(words.join(" "), MAX_COMMAND_BYTES),
            wishes,
            shim: ShimFile::default(),
            program: None,
        }
    }
}

/// The text in `longest` bytes; what is cut ends in `…`.
pub(super) fn cut(mut text: String, longest: usize) -> String {
    if text.len() > longest {
        let mut end = longest - '…'.len_utf8();
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Who decided the team mode, on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum TeamsAsked {
    ByName,
    FromCatalogue,
    Auto,
    /// From a newer launcher: treated as a mode that was requested by name.
    #[serde(other)]
    Unknown,
}

/// The request as it is on the wire: flat.
#[derive(Clone, Serialize, Deserialize)]
struct LaunchWire {
    protocol: u32,
    pid: u32,
    name: AppName,
    #[serde(default)]
    command: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    qos: Option<Qos>,
    #[serde(default)]
    weight: Weight,
    #[serde(default = "one")]
    min_cpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_cpus: Option<u32>,
    #[serde(default)]
    resizing: Resizing,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lending: Option<Lending>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    teams: Option<TeamMode>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    teams_asked: Option<TeamsAsked>,
    #[serde(default, skip_serializing_if = "Wish::is_open")]
    threads: Wish<Threads>,
    #[serde(default, skip_serializing_if = "Wish::is_open")]
    schedule: Wish<Schedule>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    runtime: Option<RuntimeChoice>,
    #[serde(default)]
    memory: MemoryPolicy,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    partition: Option<Partition>,
    #[serde(default)]
    shim: ShimFile,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
}

impl TryFrom<LaunchWire> for LaunchRequest {
    type Error = OutOfRange;

    fn try_from(wire: LaunchWire) -> Result<Self, OutOfRange> {
        let pid = check_pid(wire.pid, "give the process that will exec the program")?;
        if let Some(program) = &wire.program {
            program.check()?;
        }
        let teams = match (wire.teams, wire.teams_asked) {
            (_, Some(TeamsAsked::Auto)) => Some(TeamsWish::Auto),
            (Some(mode), Some(TeamsAsked::FromCatalogue)) => Some(TeamsWish::Checked(mode)),
            (Some(mode), _) => Some(TeamsWish::Named(mode)),
            (None, _) => None,
        };
        Ok(Self {
            pid,
            command: cut(wire.command, MAX_COMMAND_BYTES),
            wishes: Wishes {
                name: wire.name,
                qos: wire.qos,
                weight: wire.weight,
                cpus: CpuRange::new(wire.min_cpus, wire.max_cpus)?,
                resizing: wire.resizing,
                lending: wire.lending,
                teams,
                threads: wire.threads,
                schedule: wire.schedule,
                runtime: wire.runtime,
                memory: wire.memory,
                partition: wire.partition,
            },
            shim: wire.shim,
            program: wire.program,
        })
    }
}

impl From<LaunchRequest> for LaunchWire {
    fn from(request: LaunchRequest) -> Self {
        let wishes = request.wishes;
        Self {
            protocol: PROTOCOL,
            pid: request.pid,
            name: wishes.name,
            command: request.command,
            qos: wishes.qos,
            weight: wishes.weight,
            min_cpus: wishes.cpus.min(),
            max_cpus: wishes.cpus.max(),
            resizing: wishes.resizing,
            lending: wishes.lending,
            teams: wishes.teams.and_then(TeamsWish::mode),
            teams_asked: wishes.teams.map(|teams| match teams {
                TeamsWish::Named(_) => TeamsAsked::ByName,
                TeamsWish::Checked(_) => TeamsAsked::FromCatalogue,
                TeamsWish::Auto => TeamsAsked::Auto,
            }),
            threads: wishes.threads,
            schedule: wishes.schedule,
            runtime: wishes.runtime,
            memory: wishes.memory,
            partition: wishes.partition,
            shim: request.shim,
            program: request.program,
        }
    }
}

/// Reply to `Launch`; the process is confined already. With a token comes exactly one file descriptor, the shared page;
/// without, none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaunchReply {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name, perhaps with a number added to the requested one.
    pub name: AppName,
    /// The CPUs it starts on.
    pub cpus: CpuSet,
    /// How many of them count for its team: all but those that idle applications lend; one, if it has to share them.
    pub cpu_count: u32,
    /// The most that it could get: how many CPUs the daemon can assign, without those that its own mask (taskset, a
    /// batch system) leaves out.
    pub machine_cpus: u32,
    /// The number by which the program recognises the shared page: 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// The settings of its OpenMP runtime.
    pub terms: Terms,
}

/// `Exited`: the program ended; sent without waiting for a reply, just before the lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExitedRequest {
    /// The application.
    pub app: AppId,
    /// Its exit status as in a shell: 128 + n after signal n.
    pub status: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::LinkedOpenMp;

    fn wishes() -> Wishes {
        Wishes::named(AppName::new("fft").unwrap())
    }

    #[test]
    fn what_was_left_out_is_left_open() {
        let text = r#"{"protocol":2,"pid":7,"name":"fft"}"#;
        let request: LaunchRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.wishes, wishes());
        assert_eq!(request.shim, ShimFile::Found);
    }

    #[test]
    fn words_of_a_newer_launcher_are_no_reason_to_refuse_it() {
        let request: LaunchRequest = serde_json::from_str(
            r#"{"protocol":2,"pid":7,"name":"fft","teams":"follow","teams_asked":"oracle",
                "colour":"red","program":{"path":"/usr/bin/fft","openmp":"libquomp"}}"#,
        )
        .unwrap();
        let teams = TeamsWish::Named(TeamMode::Follow);
        assert_eq!(request.wishes.teams, Some(teams));
        let linked = request.program.unwrap().openmp;
        assert_eq!(linked, LinkedOpenMp::Unknown);
        assert!(linked.serves(TeamMode::Follow).is_ok());
        assert_eq!(linked.unreachable_because("/usr/bin/fft"), None);
        // A value of the wrong type is refused all the same.
        let number = r#"{"protocol":2,"pid":7,"name":"fft","threads":[3]}"#;
        assert!(serde_json::from_str::<LaunchRequest>(number).is_err());
    }

    #[test]
    fn a_request_survives_the_wire() {
        let all = Wishes {
            qos: Some(Qos::new(0.7).unwrap()),
            cpus: CpuRange::new(2, Some(6)).unwrap(),
            resizing: Resizing::Never,
            lending: Some(Lending::Never),
            threads: Wish::Environment,
            schedule: Wish::Asked(Schedule::Adaptive),
            runtime: Some(RuntimeChoice::Off),
            partition: Some(Partition::Isolated),
            ..wishes()
        };
        for teams in [
            None,
            Some(TeamsWish::Auto),
            Some(TeamsWish::Named(TeamMode::Follow)),
            Some(TeamsWish::Checked(TeamMode::Virtual)),
        ] {
            for wishes in [wishes(), all.clone()] {
                let wishes = Wishes { teams, ..wishes };
                let request = LaunchRequest::new(12, ["./fft", "-n", "9"], wishes);
                assert_eq!(request.command, "./fft -n 9");
                let text = serde_json::to_string(&request).unwrap();
                let read: LaunchRequest = serde_json::from_str(&text).unwrap();
                assert_eq!(read, request);
            }
        }
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_value_and_fix() {
        for (fields, says) in [
            (r#""pid":0"#, "pid 0"),
            (r#""pid":4294967295"#, "pid 4294967295"),
            (r#""pid":7,"qos":1.5"#, "qos 1.5: give a number"),
            (r#""pid":7,"weight":0"#, "weight 0: give"),
            (r#""pid":7,"min_cpus":0"#, "min-cpus 0: give 1"),
            (
                r#""pid":7,"program":{"path":"/p","build_id":"0g"}"#,
                "build id \"0g\": give",
            ),
            (
                r#""pid":7,"min_cpus":3,"max_cpus":2"#,
                "max-cpus 2 (min-cpus 3): give",
            ),
        ] {
            let text = format!(r#"{{"protocol":2,"name":"a",{fields}}}"#);
            let error = serde_json::from_str::<LaunchRequest>(&text).unwrap_err();
            assert!(error.to_string().contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_command_line_is_cut_between_characters() {
        let word = "ü".repeat(5000);
        let request = LaunchRequest::new(1, [word.as_str(), "x"], wishes());
        assert!(request.command.len() <= MAX_COMMAND_BYTES);
        assert!(request.command.ends_with("ü…"));
        // Also one of a client that does not cut it.
        let text = serde_json::to_string(&LaunchRequest {
            command: word,
            ..request.clone()
        })
        .unwrap();
        let read: LaunchRequest = serde_json::from_str(&text).unwrap();
        assert_eq!(read.command, request.command);
    }
}
