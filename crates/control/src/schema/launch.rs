//! A program is to start, and has ended.

use crate::PROTOCOL;
use crate::schema::{MemoryPolicy, OpenSetting, Partition, Program, Settled, TeamsAsked};
use mapper_model::bounds::OutOfRange;
use mapper_model::{AppId, AppName, AppSpec, CpuRange, CpuSet, Qos, Resizing, TeamMode, Weight};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The longest command line that is passed on, for people to read; longer ones are cut.
const MAX_COMMAND_BYTES: usize = 4096;

/// `Launch`: asks for a place for a process that waits to exec.
///
/// The daemon checks that the process is a child of the caller and belongs to the caller's user.
/// The connection is the application's lease: when it closes, the launcher is gone.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(try_from = "LaunchWire", into = "LaunchWire")]
pub struct LaunchRequest {
    /// The process that will exec the program; a child of the caller.
    pub pid: u32,
    /// The command line, for people to read.
    pub command: String,
    /// Name, promise, limits. If the name is taken, the daemon adds a number to it.
    pub spec: AppSpec,
    /// Whether the program gets a page to share with the daemon.
    pub runtime: RuntimeChoice,
    /// What is done with its memory when its CPUs move.
    pub memory: MemoryPolicy,
    /// Whether it is to have its CPUs to itself.
    pub partition: Partition,
    /// Who chose the team mode.
    pub teams_asked: TeamsAsked,
    /// What else the user left open.
    pub open: BTreeSet<OpenSetting>,
    /// The file that is started, if the launcher could look at it.
    pub program: Option<Program>,
}

/// Whether the runtime interface is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuntimeChoice {
    /// With a shared page, for the shim.
    #[default]
    On,
    /// Without (`--no-runtime`).
    Off,
}

impl LaunchRequest {
    /// A request with everything given and nothing known of the program, whose command line is made from
    /// its words, cut where it gets too long.
    #[must_use]
    pub fn new<'w>(
        pid: u32,
        words: impl IntoIterator<Item = &'w str>,
        spec: AppSpec,
        runtime: RuntimeChoice,
    ) -> Self {
        let mut command = String::new();
        for word in words {
            if !command.is_empty() {
                command.push(' ');
            }
            command.push_str(word);
            if command.len() > MAX_COMMAND_BYTES {
                let end = (0..=MAX_COMMAND_BYTES)
                    .rev()
                    .find(|&end| command.is_char_boundary(end))
                    .unwrap_or(0);
                command.truncate(end);
                command.push('…');
                break;
            }
        }
        Self {
            pid,
            command,
            spec,
            runtime,
            memory: MemoryPolicy::default(),
            partition: Partition::default(),
            teams_asked: TeamsAsked::default(),
            open: BTreeSet::new(),
            program: None,
        }
    }
}

/// Reads settings without those that only a newer launcher knows: no rule of this version decides them.
fn known_settings<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeSet<OpenSetting>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Told {
        Known(OpenSetting),
        Other(#[expect(dead_code, reason = "only that it is a word counts")] String),
    }
    let told = Vec::<Told>::deserialize(deserializer)?;
    let known = |setting| match setting {
        Told::Known(setting) => Some(setting),
        Told::Other(_) => None,
    };
    Ok(told.into_iter().filter_map(known).collect())
}

/// The request as it is on the wire: flat.
#[derive(Clone, Serialize, Deserialize)]
struct LaunchWire {
    protocol: u32,
    pid: u32,
    name: AppName,
    #[serde(default)]
    command: String,
    #[serde(default)]
    qos: Qos,
    #[serde(default)]
    weight: Weight,
    #[serde(default = "one")]
    min_cpus: u32,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_cpus: Option<u32>,
    #[serde(default)]
    resizing: Resizing,
    #[serde(default)]
    teams: TeamMode,
    #[serde(default)]
    runtime: RuntimeChoice,
    #[serde(default)]
    memory: MemoryPolicy,
    #[serde(default, skip_serializing_if = "Partition::is_member")]
    partition: Partition,
    #[serde(default)]
    teams_asked: TeamsAsked,
    #[serde(default, deserialize_with = "known_settings")]
    open: BTreeSet<OpenSetting>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    program: Option<Program>,
}

const fn one() -> u32 {
    1
}

impl TryFrom<LaunchWire> for LaunchRequest {
    type Error = OutOfRange;

    fn try_from(wire: LaunchWire) -> Result<Self, OutOfRange> {
        if wire.pid == 0 || i32::try_from(wire.pid).is_err() {
            return Err(OutOfRange {
                what: "pid",
                value: wire.pid.to_string(),
                mend: "give the process that will exec the program",
            });
        }
        if let Some(program) = &wire.program {
            program.check()?;
        }
        Ok(Self {
            pid: wire.pid,
            command: wire.command,
            spec: AppSpec {
                name: wire.name,
                qos: wire.qos,
                weight: wire.weight,
                cpus: CpuRange::new(wire.min_cpus, wire.max_cpus)?,
                resizing: wire.resizing,
                teams: wire.teams,
            },
            runtime: wire.runtime,
            memory: wire.memory,
            partition: wire.partition,
            teams_asked: wire.teams_asked,
            open: wire.open,
            program: wire.program,
        })
    }
}

impl From<LaunchRequest> for LaunchWire {
    fn from(request: LaunchRequest) -> Self {
        let LaunchRequest {
            pid,
            command,
            spec,
            runtime,
            memory,
            partition,
            teams_asked,
            open,
            program,
        } = request;
        Self {
            protocol: PROTOCOL,
            pid,
            name: spec.name,
            command,
            qos: spec.qos,
            weight: spec.weight,
            min_cpus: spec.cpus.min(),
            max_cpus: spec.cpus.max(),
            resizing: spec.resizing,
            teams: spec.teams,
            runtime,
            memory,
            partition,
            teams_asked,
            open,
            program,
        }
    }
}

/// The place a program got. By the time of this reply the process is confined to it.
///
/// With a token comes exactly one file descriptor, the shared page; without, none.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LaunchReply {
    /// [`PROTOCOL`].
    pub protocol: u32,
    /// The application.
    pub app: AppId,
    /// Its name, perhaps with a number added to the one asked for.
    pub name: AppName,
    /// The CPUs it starts on.
    pub cpus: CpuSet,
    /// How many these are.
    pub cpu_count: u32,
    /// How many CPUs the daemon has to give: no application will ever have more.
    pub machine_cpus: u32,
    /// The number in the shared page by which the program recognises it, as 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// What was settled about its OpenMP runtime.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<Settled>,
}

/// `Exited`: the program ended; sent without waiting for a reply, just before the lease ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ExitedRequest {
    /// The application.
    pub app: AppId,
    /// Its exit status as a shell tells it: 128 + n after signal n.
    pub status: u8,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::LinkedOpenMp;

    fn spec() -> AppSpec {
        AppSpec::named(AppName::new("fft").unwrap())
    }

    #[test]
    fn what_was_left_out_is_the_default() {
        let text = r#"{"protocol":1,"pid":7,"name":"fft"}"#;
        let request: LaunchRequest = serde_json::from_str(text).unwrap();
        assert_eq!(request.spec, spec());
        assert_eq!(request.runtime, RuntimeChoice::On);
    }

    #[test]
    fn words_of_a_newer_launcher_are_no_reason_to_refuse_it() {
        let request: LaunchRequest = serde_json::from_str(
            r#"{"protocol":1,"pid":7,"name":"fft","teams":"follow","teams_asked":"oracle",
                "open":["qos","colour"],"program":{"path":"/usr/bin/fft","openmp":"libquomp"}}"#,
        )
        .unwrap();
        assert_eq!(request.teams_asked, TeamsAsked::Unknown);
        assert_eq!(request.open, [OpenSetting::Qos].into());
        let linked = request.program.unwrap().openmp;
        assert_eq!(linked, LinkedOpenMp::Unknown);
        assert!(linked.serves(TeamMode::Follow).is_ok());
        assert_eq!(linked.unreachable_because("/usr/bin/fft"), None);
        // What is no word at all is refused all the same.
        let number = r#"{"protocol":1,"pid":7,"name":"fft","open":[3]}"#;
        assert!(serde_json::from_str::<LaunchRequest>(number).is_err());
    }

    #[test]
    fn a_request_survives_the_wire() {
        let mut spec = spec();
        spec.qos = Qos::new(0.7).unwrap();
        spec.cpus = CpuRange::new(2, Some(6)).unwrap();
        spec.teams = TeamMode::Follow;
        spec.resizing = Resizing::Never;
        let mut request = LaunchRequest::new(12, ["./fft", "-n", "9"], spec, RuntimeChoice::Off);
        request.partition = Partition::Isolated;
        assert_eq!(request.command, "./fft -n 9");
        let text = serde_json::to_string(&request).unwrap();
        assert_eq!(
            serde_json::from_str::<LaunchRequest>(&text).unwrap(),
            request
        );
    }

    #[test]
    fn what_cannot_be_asked_for_is_refused_with_value_and_mend() {
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
            let text = format!(r#"{{"protocol":1,"name":"a",{fields}}}"#);
            let error = serde_json::from_str::<LaunchRequest>(&text)
                .unwrap_err()
                .to_string();
            assert!(error.contains(says), "{text}: {error}");
        }
    }

    #[test]
    fn a_long_command_line_is_cut_between_characters() {
        let word = "ü".repeat(5000);
        let request = LaunchRequest::new(1, [word.as_str(), "x"], spec(), RuntimeChoice::On);
        assert!(request.command.len() <= MAX_COMMAND_BYTES + '…'.len_utf8());
        assert!(request.command.ends_with("ü…"));
    }
}
