//! Rules about programs: what the operator, or the project, knows about a program that its user need
//! not know.
//!
//! Two lists of the same form: `[[program]]` in the configuration, and the *shipped list*
//! (`validated.toml`), which names programs that the project has run in a team mode and found right. In
//! each the first rule that fits the program and its user decides. A flag of the user comes before all
//! rules; for the team mode this is the order:
//!
//! 1. `--teams` with a mode,
//! 2. with `--teams auto`, what `--check-teams` found on this machine for this build,
//! 3. the operator's rules, also without `--teams`: whoever writes one answers for it,
//! 4. with `--teams auto`, the shipped list,
//! 5. `fixed`, under which every program gives the results of a conforming run.
//!
//! What a rule sets is afterwards held against what the user may ask for at all (ADR 16), since the path
//! and the build id are what the user's launcher says they are.

use crate::access::{UnknownName, Whom};
use crate::message::Peer;
use mapper_control::schema::{
    BY_DEFAULT, LaunchRequest, LinkedOpenMp, OpenSetting, Program, RuntimeChoice, Schedule,
    Settled, TeamsAsked, Threads,
};
use mapper_model::{Qos, TeamMode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The list that mapper is delivered with.
const SHIPPED: &str = include_str!("validated.toml");

/// A rule: which programs of whom it is for, and what it settles where the user gave no flag.
#[derive(Clone, PartialEq, Debug, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ProgramRule {
    /// The program's file, links followed. `*` and `?` stand for characters but the slash, `**` for any.
    #[schemars(with = "Option<String>")]
    pub(crate) path: Option<Pattern>,
    /// The file's name alone, with `*` and `?`.
    #[schemars(with = "Option<String>")]
    pub(crate) name: Option<Pattern>,
    /// The build id (`file PROGRAM` shows it), or at least its first eight digits.
    #[schemars(with = "Option<String>")]
    pub(crate) build_id: Option<BuildId>,
    /// Users whose launches it is for, by name or number.
    pub(crate) users: Vec<String>,
    /// Groups for whose members it is, by name or number. Without users and groups it is for everybody.
    pub(crate) groups: Vec<String>,
    /// The team mode: "fixed", "virtual" or "follow".
    #[schemars(with = "Option<String>")]
    pub(crate) teams: Option<Written<TeamMode>>,
    /// Threads to start with: "alloc", "all" or a number.
    #[schemars(with = "Option<String>")]
    pub(crate) threads: Option<Threads>,
    /// How dynamic loops are handed out: "as-written" or "adaptive".
    #[schemars(with = "Option<String>")]
    pub(crate) schedule: Option<Schedule>,
    /// The promise.
    #[schemars(with = "Option<f64>")]
    pub(crate) qos: Option<Qos>,
    /// The runtime interface: "on" or "off".
    #[schemars(with = "Option<String>")]
    pub(crate) runtime: Option<RuntimeChoice>,
}

/// A value that is written as on the command line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Written<T>(T);

impl<'de, T: std::str::FromStr<Err: fmt::Display>> Deserialize<'de> for Written<T> {
    fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = String::deserialize(from)?;
        text.parse().map(Self).map_err(serde::de::Error::custom)
    }
}

/// A pattern for paths and names.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Pattern(String);

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        if text.is_empty() {
            return Err("pattern \"\": give a path or name; leave it out to fit all".to_owned());
        }
        Ok(Self(text))
    }
}

impl Pattern {
    fn fits(&self, text: &str) -> bool {
        fits(self.0.as_bytes(), text.as_bytes())
    }
}

/// Whether a pattern stands for the whole of a text. Takes steps in proportion to the product of their
/// lengths at most, and stops where nothing can fit any more.
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    // The places in the text up to which what was read of the pattern can stand.
    let mut ends = vec![false; text.len() + 1];
    ends[0] = true;
    let mut rest = pattern;
    while let [first, after @ ..] = rest {
        let any = rest.starts_with(b"**");
        rest = if any { &rest[2..] } else { after };
        if *first == b'*' {
            for (place, &byte) in text.iter().enumerate() {
                ends[place + 1] |= ends[place] && (any || byte != b'/');
            }
            continue;
        }
        for (place, &byte) in text.iter().enumerate().rev() {
            let same = *first == byte || (*first == b'?' && byte != b'/');
            ends[place + 1] = ends[place] && same;
        }
        ends[0] = false;
        if !ends.contains(&true) {
            return false;
        }
    }
    ends[text.len()]
}

/// The beginning of a build id.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BuildId(String);

impl TryFrom<String> for BuildId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The longest that a launcher tells has 128 digits, twice those of SHA-256.
        if !(8..=128).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let shown: String = text.chars().take(80).collect();
            return Err(format!(
                "build_id {shown:?}: give 8 to 128 hexadecimal digits"
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl RuleError {
    /// Which rule it is, counted from 1.
    pub(crate) const fn number(&self) -> usize {
        match self {
            Self::UnknownName(error) => error.number(),
            Self::Empty { number } | Self::TeamsWithoutRuntime { number, .. } => *number,
        }
    }
}

/// Rules that cannot be followed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RuleError {
    #[error("program {0}")]
    UnknownName(#[from] UnknownName),
    #[error("program rule {number}: says nothing; give teams, threads, schedule, qos or runtime")]
    Empty { number: usize },
    #[error(
        "program rule {number}: teams = \"{teams}\" not with runtime = \"off\"; leave one of them out"
    )]
    TeamsWithoutRuntime { number: usize, teams: TeamMode },
}

/// A list of rules with names looked up.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ProgramRules {
    /// Where they stand, as it is told to people.
    origin: String,
    rules: Vec<(Whom, ProgramRule)>,
}

impl ProgramRules {
    /// The rules that stand in the file `origin`.
    pub(crate) fn resolve(origin: &str, rules: &[ProgramRule]) -> Result<Self, RuleError> {
        let one = |(place, rule): (usize, &ProgramRule)| {
            let number = place + 1;
            let settles = rule.teams.is_some()
                || rule.threads.is_some()
                || rule.schedule.is_some()
                || rule.qos.is_some()
                || rule.runtime.is_some();
            if !settles {
                return Err(RuleError::Empty { number });
            }
            match (rule.teams, rule.runtime) {
                (Some(Written(teams)), Some(RuntimeChoice::Off)) if teams != TeamMode::Fixed => {
                    return Err(RuleError::TeamsWithoutRuntime { number, teams });
                }
                _ => {}
            }
            Ok((
                Whom::resolve(number, &rule.users, &rule.groups)?,
                rule.clone(),
            ))
        };
        Ok(Self {
            origin: origin.to_owned(),
            rules: rules
                .iter()
                .enumerate()
                .map(one)
                .collect::<Result<_, _>>()?,
        })
    }

    /// The shipped list.
    pub(crate) fn shipped() -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            program: Vec<ProgramRule>,
        }
        let file: File = toml::from_str(SHIPPED)?;
        Ok(Self::resolve("the shipped list", &file.program)?)
    }

    /// The first rule for this program of this user, and how it is called. Of a program of which nothing is
    /// known, only rules can be for that say nothing of the file.
    fn find(&self, peer: &Peer, program: Option<&Program>) -> Option<(&ProgramRule, String)> {
        let (place, (_, rule)) = self
            .rules
            .iter()
            .enumerate()
            .find(|(_, (whom, rule))| whom.includes(peer) && rule.is_for(program))?;
        Some((rule, format!("rule {} of {}", place + 1, self.origin)))
    }
}

impl ProgramRule {
    fn is_for(&self, program: Option<&Program>) -> bool {
        let Some(program) = program else {
            return self.path.is_none() && self.name.is_none() && self.build_id.is_none();
        };
        let name = program.path.rsplit('/').next().unwrap_or_default();
        let build_id = program.build_id.as_deref().unwrap_or_default();
        let path = self.path.as_ref();
        path.is_none_or(|path| path.fits(&program.path))
            && self.name.as_ref().is_none_or(|wanted| wanted.fits(name))
            && self
                .build_id
                .as_ref()
                .is_none_or(|wanted| build_id.to_ascii_lowercase().starts_with(&wanted.0))
    }
}

/// What is kept of how a launch was settled, to be told later.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Provenance {
    /// Who decided the team mode.
    pub(crate) teams_by: String,
    /// The mode that was decided, where the program cannot have it.
    pub(crate) unserved: Option<TeamMode>,
    /// The file that was started, if the launcher could look at it: what is told of it to people.
    pub(crate) program: Option<StartedFile>,
}

/// What is kept of a [`Program`].
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct StartedFile {
    /// The path, cut where it gets too long to be read.
    path: String,
    #[serde(default)]
    openmp: LinkedOpenMp,
}

/// Characters of a path that are kept of each application: a thousand of them are saved again and again.
const PATH_KEPT: usize = 256;

impl From<&Program> for StartedFile {
    fn from(program: &Program) -> Self {
        let mut path: String = program.path.chars().take(PATH_KEPT).collect();
        if path.len() < program.path.len() {
            path.push('…');
        }
        Self {
            path,
            openmp: program.openmp,
        }
    }
}

impl Provenance {
    /// Why teams are fixed although something else was decided.
    pub(crate) fn unserved_because(&self) -> Option<String> {
        let linked = self.program.as_ref()?.openmp;
        let teams = self.unserved?;
        let why = linked.serves(teams).err()?;
        Some(format!("teams are not {teams}: {why}"))
    }

    /// Why the shim cannot reach the program, if so.
    pub(crate) fn unreachable_because(&self) -> Option<String> {
        let program = self.program.as_ref()?;
        program.openmp.unreachable_because(&program.path)
    }
}

/// The runtime interface of a launch; without it teams are fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interface {
    There,
    /// `--no-runtime`.
    Unwanted,
    /// A rule says so.
    RuledOut,
    /// The launcher has none to offer: the user did not turn it off, and left it open.
    Missing,
}

/// [`Settled::teams_by`] where the user wants no runtime interface.
const WITHOUT_RUNTIME: &str = "no runtime interface, as asked";
/// [`Settled::teams_by`] where the launcher found no shim.
const WITHOUT_SHIM: &str = "no runtime interface, its library was not found";

/// Settles what the user left open, in the request itself and in what is returned.
pub(crate) fn settle(
    operators: &ProgramRules,
    shipped: &ProgramRules,
    peer: &Peer,
    request: &mut LaunchRequest,
) -> (Settled, Provenance) {
    let program = request.program.as_ref();
    let found = operators.find(peer, program);
    let rule = found.as_ref().map(|(rule, _)| *rule);
    let open = |setting| request.open.contains(&setting);
    let settled_threads = rule
        .and_then(|rule| rule.threads)
        .filter(|_| open(OpenSetting::Threads));
    let settled_schedule = rule
        .and_then(|rule| rule.schedule)
        .filter(|_| open(OpenSetting::Schedule));
    if let Some(qos) = rule
        .and_then(|rule| rule.qos)
        .filter(|_| open(OpenSetting::Qos))
    {
        request.spec.qos = qos;
    }
    let interface = match (request.runtime, rule.and_then(|rule| rule.runtime)) {
        (RuntimeChoice::Off, _) if open(OpenSetting::Runtime) => Interface::Missing,
        (RuntimeChoice::Off, _) => Interface::Unwanted,
        (RuntimeChoice::On, Some(RuntimeChoice::Off)) if open(OpenSetting::Runtime) => {
            request.runtime = RuntimeChoice::Off;
            Interface::RuledOut
        }
        (RuntimeChoice::On, _) => Interface::There,
    };
    let by_rule = |found: &Option<(&ProgramRule, String)>| {
        let (rule, name) = found.as_ref()?;
        Some((rule.teams?.0, name.clone()))
    };
    let shipped = match request.teams_asked {
        TeamsAsked::Auto => shipped.find(peer, program),
        _ => None,
    };
    let (teams, teams_by) = match request.teams_asked {
        TeamsAsked::ByName => (request.spec.teams, "as asked".to_owned()),
        TeamsAsked::FromCatalogue => (request.spec.teams, "found by --check-teams".to_owned()),
        TeamsAsked::Auto | TeamsAsked::Open => by_rule(&found)
            .or_else(|| by_rule(&shipped))
            .unwrap_or((TeamMode::Fixed, BY_DEFAULT.to_owned())),
    };
    let linked = program.map_or(LinkedOpenMp::default(), |program| program.openmp);
    let teams_by = match (interface, &found) {
        (Interface::Missing, _) => WITHOUT_SHIM.to_owned(),
        // What was decided cannot be had for this reason.
        (Interface::Unwanted, _) if teams != TeamMode::Fixed => WITHOUT_RUNTIME.to_owned(),
        (Interface::RuledOut, Some((_, name))) if teams != TeamMode::Fixed => name.clone(),
        _ => teams_by,
    };
    let unserved =
        (interface == Interface::There && linked.serves(teams).is_err()).then_some(teams);
    request.spec.teams = match interface {
        Interface::There if unserved.is_none() => teams,
        _ => TeamMode::Fixed,
    };
    let settled = Settled {
        teams: request.spec.teams,
        teams_by: teams_by.clone(),
        threads: settled_threads,
        schedule: settled_schedule,
    };
    let provenance = Provenance {
        teams_by,
        unserved,
        program: program.map(StartedFile::from),
    };
    (settled, provenance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_model::{AppName, AppSpec};
    use proptest::prelude::*;

    const PEER: u32 = 1000;

    fn peer() -> Peer {
        Peer {
            pid: 1,
            uid: PEER,
            groups: vec![100].into(),
        }
    }

    fn rules(text: &str) -> ProgramRules {
        try_rules(text).unwrap()
    }

    fn try_rules(text: &str) -> anyhow::Result<ProgramRules> {
        let file = crate::config_file::ConfigFile::parse(text)?;
        Ok(ProgramRules::resolve("m.toml", &file.program)?)
    }

    fn request(asked: TeamsAsked, teams: TeamMode, openmp: LinkedOpenMp) -> LaunchRequest {
        let mut spec = AppSpec::named(AppName::new("fft").unwrap());
        spec.teams = teams;
        let mut request = LaunchRequest::new(7, ["fft"], spec, RuntimeChoice::On);
        request.teams_asked = asked;
        request.program = Some(Program {
            path: "/opt/solvers/bin/fft".to_owned(),
            build_id: Some("00c0ffee00c0ffee".to_owned()),
            openmp,
        });
        request
    }

    fn teams(operators: &str, shipped: &str, request: &mut LaunchRequest) -> (TeamMode, String) {
        let settled = settle(&rules(operators), &rules(shipped), &peer(), request).0;
        assert_eq!(settled.teams, request.spec.teams);
        (settled.teams, settled.teams_by)
    }

    #[test]
    fn the_users_word_comes_first_then_the_catalogue_the_operator_the_list_and_fixed() {
        let operators = "[[program]]\nname = \"cg\"\nteams = \"fixed\"\n[[program]]\nname = \"f*\"\nteams = \"virtual\"\n";
        let shipped = "[[program]]\npath = \"/opt/**\"\nteams = \"follow\"\n";
        let ask = |operators, shipped, asked, mode| {
            teams(
                operators,
                shipped,
                &mut request(asked, mode, LinkedOpenMp::Libgomp),
            )
        };
        let (fixed, follow, virtual_) = (TeamMode::Fixed, TeamMode::Follow, TeamMode::Virtual);
        let said = |mode, by: &str| (mode, by.to_owned());
        assert_eq!(
            ask(operators, shipped, TeamsAsked::ByName, fixed),
            said(fixed, "as asked")
        );
        assert_eq!(
            ask(operators, shipped, TeamsAsked::FromCatalogue, follow),
            said(follow, "found by --check-teams")
        );
        for asked in [TeamsAsked::Auto, TeamsAsked::Open] {
            assert_eq!(
                ask(operators, shipped, asked, fixed),
                said(virtual_, "rule 2 of m.toml")
            );
        }
        assert_eq!(
            ask("", shipped, TeamsAsked::Auto, fixed),
            said(follow, "rule 1 of m.toml")
        );
        // Who did not ask for it is not given what the project believes.
        assert_eq!(
            ask("", shipped, TeamsAsked::Open, fixed),
            said(fixed, BY_DEFAULT)
        );
        assert_eq!(
            ask("", "", TeamsAsked::Auto, fixed),
            said(fixed, BY_DEFAULT)
        );
    }

    #[test]
    fn a_rule_settles_what_is_open_and_nothing_else() {
        let text = "[[program]]\nbuild_id = \"00C0FFEE\"\nqos = 0.5\nthreads = \"all\"\nschedule = \"adaptive\"\nruntime = \"off\"\n";
        let mut asked = request(TeamsAsked::Open, TeamMode::Fixed, LinkedOpenMp::Libgomp);
        let none = ProgramRules::default();
        let settled = settle(&rules(text), &none, &peer(), &mut asked).0;
        assert_eq!((settled.threads, settled.schedule), (None, None));
        assert_eq!(asked.spec.qos, Qos::default());
        assert_eq!(asked.runtime, RuntimeChoice::On);
        asked.open = [
            OpenSetting::Qos,
            OpenSetting::Threads,
            OpenSetting::Schedule,
            OpenSetting::Runtime,
        ]
        .into();
        let settled = settle(&rules(text), &none, &peer(), &mut asked).0;
        assert_eq!(settled.threads, Some(Threads::All));
        assert_eq!(settled.schedule, Some(Schedule::Adaptive));
        assert_eq!(asked.spec.qos.get(), 0.5);
        assert_eq!(asked.runtime, RuntimeChoice::Off);
    }

    #[test]
    fn programs_that_cannot_have_a_mode_get_fixed_teams_and_the_reason() {
        for (openmp, mode, why) in [
            (LinkedOpenMp::Libomp, TeamMode::Virtual, "libomp"),
            (LinkedOpenMp::StaticLibgomp, TeamMode::Follow, "statically"),
        ] {
            let mut asked = request(TeamsAsked::ByName, mode, openmp);
            let none = ProgramRules::default();
            let (settled, provenance) = settle(&none, &none, &peer(), &mut asked);
            assert_eq!(settled.teams, TeamMode::Fixed);
            let said = provenance.unserved_because().unwrap();
            assert!(said.contains(why) && said.contains(mode.as_str()), "{said}");
        }
        let mut asked = request(TeamsAsked::ByName, TeamMode::Follow, LinkedOpenMp::Libomp);
        let none = ProgramRules::default();
        let (settled, provenance) = settle(&none, &none, &peer(), &mut asked);
        assert_eq!(settled.teams, TeamMode::Follow);
        assert_eq!(provenance.unserved_because(), None);
    }

    #[test]
    fn the_loader_and_other_static_programs_get_the_mode_for_what_they_start() {
        let mode = TeamMode::Virtual;
        let mut asked = request(TeamsAsked::ByName, mode, LinkedOpenMp::StaticProgram);
        let none = ProgramRules::default();
        let (settled, provenance) = settle(&none, &none, &peer(), &mut asked);
        assert_eq!((settled.teams, asked.spec.teams), (mode, mode));
        assert_eq!(provenance.unserved_because(), None);
        let note = provenance.unreachable_because().unwrap();
        assert!(note.contains("linked statically"), "{note}");
    }

    #[test]
    fn where_the_runtime_interface_is_off_that_is_told_and_not_the_mode_that_was_decided() {
        let text = |more: &str| format!("[[program]]\nname = \"fft\"\n{more}\n");
        let virtual_ = text("teams = \"virtual\"");
        let off = text("runtime = \"off\"");
        let request = |asked, runtime, open: &[OpenSetting]| {
            let mut request = request(asked, TeamMode::Fixed, LinkedOpenMp::Libgomp);
            request.runtime = runtime;
            request.open = open.iter().copied().collect();
            request
        };
        let (off_, open) = (RuntimeChoice::Off, TeamsAsked::Open);
        let no_runtime = teams(&virtual_, "", &mut request(open, off_, &[]));
        assert_eq!(no_runtime, (TeamMode::Fixed, WITHOUT_RUNTIME.to_owned()));
        for asked in [TeamsAsked::ByName, open, TeamsAsked::Auto] {
            let mut missing = request(asked, off_, &[OpenSetting::Runtime]);
            let told = teams(
                &text("runtime = \"on\"\nteams = \"virtual\""),
                "",
                &mut missing,
            );
            assert_eq!(told, (TeamMode::Fixed, WITHOUT_SHIM.to_owned()));
            assert_eq!(missing.runtime, off_);
        }
        // The operator's rule keeps the shipped list's mode away.
        let mut ruled_out = request(TeamsAsked::Auto, RuntimeChoice::On, &[OpenSetting::Runtime]);
        let list = text("teams = \"follow\"");
        let said = settle(
            &rules(&off),
            &ProgramRules {
                origin: "the list".into(),
                ..rules(&list)
            },
            &peer(),
            &mut ruled_out,
        );
        assert_eq!(said.0.teams_by, "rule 1 of m.toml");
        assert_eq!(ruled_out.spec.teams, TeamMode::Fixed);
        // Who asked for fixed teams is told that.
        let asked = teams("", "", &mut request(TeamsAsked::ByName, off_, &[]));
        assert_eq!(asked, (TeamMode::Fixed, "as asked".to_owned()));
    }

    #[test]
    fn a_program_of_which_nothing_is_known_gets_the_rules_that_say_nothing_of_the_file() {
        let text = "[[program]]\npath = \"**\"\nqos = 0.2\n[[program]]\nname = \"*\"\nqos = 0.3\n\
            [[program]]\nbuild_id = \"00c0ffee\"\nqos = 0.4\n[[program]]\nusers = [\"1000\"]\nqos = 0.5\n";
        let mut unknown = request(TeamsAsked::Open, TeamMode::Fixed, LinkedOpenMp::NotAtStart);
        unknown.program = None;
        unknown.open = [OpenSetting::Qos].into();
        settle(
            &rules(text),
            &ProgramRules::default(),
            &peer(),
            &mut unknown,
        );
        assert_eq!(unknown.spec.qos.get(), 0.5);
    }

    #[test]
    fn of_a_path_no_more_is_kept_than_people_read() {
        let mut long = request(
            TeamsAsked::Open,
            TeamMode::Fixed,
            LinkedOpenMp::StaticLibgomp,
        );
        long.program.as_mut().unwrap().path = "/\u{e4}".repeat(2000);
        let none = ProgramRules::default();
        let kept = settle(&none, &none, &peer(), &mut long).1.program.unwrap();
        assert_eq!(kept.path.chars().count(), PATH_KEPT + 1);
        assert!(kept.path.ends_with('…'));
        let of_before = serde_json::to_value(Program {
            path: "/p".into(),
            ..Program::default()
        });
        let read: StartedFile = serde_json::from_value(of_before.unwrap()).unwrap();
        assert_eq!(read.path, "/p");
    }

    #[test]
    fn a_rule_that_cannot_be_followed_is_named_with_its_own_line() {
        let fine = "[[program]]\nqos = 0.5\n";
        for (bad, says) in [
            ("name = \"a\"", "line 4: program rule 2: says nothing"),
            (
                "users = [\"no-such-user\"]\nqos = 0.5",
                "line 4: program rule 2: user",
            ),
        ] {
            let error = try_rules(&format!("{fine}\n[[program]]\n{bad}\n")).unwrap_err();
            assert!(format!("{error:#}").starts_with(says), "{error:#}");
        }
        let inline = "program = [\n  { qos = 0.5 },\n  { name = \"a\" },\n]\n";
        let error = format!("{:#}", try_rules(inline).unwrap_err());
        assert!(error.starts_with("line 3: program rule 2"), "{error}");
        let access = "[[access]]\nmax_qos = 0.5\n[[access]]\nusers = [\"no-such-user\"]\n";
        let error = format!("{:#}", try_rules(access).unwrap_err());
        assert!(error.starts_with("line 3: access rule 2"), "{error}");
        let long = "ab".repeat(65);
        let text = format!("[[program]]\nbuild_id = \"{long}\"\nqos = 0.5\n");
        let error = format!("{:#}", try_rules(&text).unwrap_err());
        assert!(error.contains("8 to 128 hex"), "{error}");
    }

    #[test]
    fn a_rule_is_for_its_users_only() {
        let text = |who: &str| format!("[[program]]\n{who}\nteams = \"virtual\"\n");
        let mode = |who: &str| {
            let mut asked = request(TeamsAsked::Open, TeamMode::Fixed, LinkedOpenMp::Libgomp);
            teams(&text(who), "", &mut asked).0
        };
        assert_eq!(mode("users = [\"1000\"]"), TeamMode::Virtual);
        assert_eq!(mode("groups = [\"100\"]"), TeamMode::Virtual);
        assert_eq!(mode("users = [\"1001\"]"), TeamMode::Fixed);
    }

    #[test]
    fn a_rule_that_cannot_be_meant_is_named_with_its_mend() {
        for (text, says) in [
            ("name = \"a\"", &["program rule 1", "says nothing"][..]),
            (
                "teams = \"virtual\"\nruntime = \"off\"",
                &["program rule 1", "leave one of them out"],
            ),
            ("teams = \"elastic\"", &["line 2", "elastic", "virtual"]),
            (
                "build_id = \"xyz\"\nqos = 0.5",
                &["line 2", "xyz", "8 to 128 hex"],
            ),
            ("qos = 1.5", &["line 2", "qos 1.5"]),
            ("team = \"fixed\"", &["line 2", "`team`", "`teams`"]),
            ("users = [\"no-such-user\"]\nqos = 0.5", &["no-such-user"]),
            ("threads = \"many\"", &["line 2", "alloc"]),
        ] {
            let error = try_rules(&format!("[[program]]\n{text}\n")).unwrap_err();
            let error = format!("{error:#}");
            for part in says {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn the_shipped_list_can_be_read_and_names_programs() {
        let shipped = ProgramRules::shipped().unwrap();
        assert!(!shipped.rules.is_empty());
        for (_, rule) in &shipped.rules {
            assert!(
                rule.build_id.is_some(),
                "a name does not tell a build: {rule:?}"
            );
            assert!(rule.users.is_empty() && rule.groups.is_empty());
        }
    }

    proptest! {
        #[test]
        fn a_pattern_without_wildcards_fits_itself_alone(a in "[a-z/]{1,8}", b in "[a-z/]{1,8}") {
            let pattern = Pattern::try_from(a.clone()).unwrap();
            prop_assert!(pattern.fits(&a));
            prop_assert_eq!(pattern.fits(&b), a == b);
        }

        #[test]
        fn one_asterisk_stops_at_a_slash_and_two_do_not(a in "[a-z]{0,4}", b in "[a-z]{0,4}", c in "[a-z]{0,4}") {
            let one = Pattern::try_from(format!("/{a}*{c}")).unwrap();
            let two = Pattern::try_from(format!("/{a}**{c}")).unwrap();
            let flat = format!("/{a}{b}{c}");
            let deep = format!("/{a}{b}/{c}");
            prop_assert!(one.fits(&flat) && two.fits(&flat) && two.fits(&deep));
            prop_assert!(!one.fits(&deep));
        }
    }
}
