//! Rules about programs, which their users need not know.
//!
//! Two lists have this form: `[[program]]` in the configuration, and the *shipped list* (`validated.toml`) of
//! programs that the project has tested in a team mode. In each the first rule that fits the program and its user
//! decides; [`terms`](crate::requests::terms) combines them with the options of the user.

use crate::config::access::{BadRule, Whom};
use crate::config::pattern::Pattern;
use crate::config::peer::Peer;
use crate::config::types::parsed;
use mapper_control::schema::{Program, RuntimeChoice, Schedule, Threads};
use mapper_model::{Qos, TeamMode};
use schemars::JsonSchema;
use serde::Deserialize;

/// A rule: which programs of which users it is for, and what it sets where the user gave no flag.
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
    /// Groups whose members it is for, by name or number. Without users and groups it is for every user.
    pub(crate) groups: Vec<String>,
    /// The team mode: "fixed", "virtual" or "follow".
    #[serde(deserialize_with = "parsed")]
    #[schemars(with = "Option<String>")]
    pub(crate) teams: Option<TeamMode>,
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
    /// Whether it has its CPUs to itself, if the user may have that and the machine offers it.
    pub(crate) isolated: Option<bool>,
    /// Whether others may use its CPUs while it is idle.
    pub(crate) lend: Option<bool>,
}

/// The beginning of a build id.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct BuildId(String);

impl TryFrom<String> for BuildId {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        // The longest that a launcher sends has 128 digits, twice those of SHA-256.
        if !(8..=128).contains(&text.len()) || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            let shown: String = text.chars().take(80).collect();
            return Err(format!(
                "build_id {shown:?}: give 8 to 128 hexadecimal digits"
            ));
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct ProgramRules {
    /// The file they are in, for messages.
    origin: String,
    rules: Vec<(Whom, ProgramRule)>,
}

impl ProgramRules {
    /// The rules of the file `origin`.
    pub(crate) fn resolve(origin: &str, rules: &[ProgramRule]) -> Result<Self, BadRule> {
        let one = |(number, rule): (usize, &ProgramRule)| {
            let list = "program";
            let whom = rule.resolve();
            let whom = whom.map_err(|why| BadRule { list, number, why })?;
            Ok((whom, rule.clone()))
        };
        let resolved = (1..).zip(rules).map(one);
        Ok(Self {
            origin: origin.to_owned(),
            rules: resolved.collect::<Result<_, _>>()?,
        })
    }

    pub(crate) fn shipped() -> anyhow::Result<Self> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[serde(default)]
            program: Vec<ProgramRule>,
        }
        let file: File = toml::from_str(include_str!("validated.toml"))?;
        Ok(Self::resolve("the shipped list", &file.program)?)
    }

    /// What is said of rules that are for every program of every user, which may be a mistake.
    pub(crate) fn for_all_programs(&self) -> impl Iterator<Item = String> {
        let rules = (1..).zip(&self.rules);
        let all = rules.filter(|(_, (_, rule))| {
            let names_nobody = rule.users.is_empty() && rule.groups.is_empty();
            names_nobody && rule.is_for(None)
        });
        all.map(|(number, _)| {
            format!(
                "program rule {number} of {} names no path, name or build_id: it is for all programs, and no rule \
                 after it is used",
                self.origin
            )
        })
    }

    /// The first rule for this program of this user, and its name for messages. Without a program, only rules that
    /// name no file.
    pub(crate) fn find(
        &self,
        peer: &Peer,
        program: Option<&Program>,
    ) -> Option<(&ProgramRule, String)> {
        let mut rules = (1..).zip(&self.rules);
        let (number, (_, rule)) =
            rules.find(|(_, (whom, rule))| whom.includes(peer) && rule.is_for(program))?;
        Some((rule, format!("rule {number} of {}", self.origin)))
    }
}

impl ProgramRule {
    /// Looks names up; an error says why the rule cannot be applied.
    fn resolve(&self) -> Result<Whom, String> {
        let settles = self.teams.is_some()
            || self.threads.is_some()
            || self.schedule.is_some()
            || self.qos.is_some()
            || self.runtime.is_some()
            || self.isolated.is_some()
            || self.lend.is_some();
        if !settles {
            let why = "sets nothing; give teams, threads, schedule, qos, runtime, isolated or lend";
            return Err(why.to_owned());
        }
        let text = |pattern: &Option<Pattern>| pattern.as_ref().map(|p| p.as_str().to_owned());
        match (text(&self.path), text(&self.name), self.teams, self.runtime) {
            (Some(path), ..) if !path.starts_with('/') && !path.starts_with("**") => Err(format!(
                "path = {path:?} fits no program; give an absolute path, or one that begins with **, or \
                     the file's name alone as name"
            )),
            (_, Some(name), ..) if name.contains('/') => Err(format!(
                "name = {name:?} fits no program, as names have no slash; give it as path"
            )),
            (.., Some(teams), Some(RuntimeChoice::Off)) if teams != TeamMode::Fixed => Err(
                format!("teams = \"{teams}\" not with runtime = \"off\"; leave one of them out"),
            ),
            _ => Whom::resolve(&self.users, &self.groups),
        }
    }

    fn is_for(&self, program: Option<&Program>) -> bool {
        let Some(program) = program else {
            return self.path.is_none() && self.name.is_none() && self.build_id.is_none();
        };
        let name = program.path.rsplit('/').next().unwrap_or_default();
        let build_id = program.build_id.as_deref().unwrap_or_default();
        let build_id = build_id.to_ascii_lowercase();
        let fits = |wanted: &Option<Pattern>, text| wanted.as_ref().is_none_or(|w| w.fits(text));
        let wanted = self.build_id.as_ref();
        fits(&self.path, &program.path)
            && fits(&self.name, name)
            && wanted.is_none_or(|wanted| build_id.starts_with(&wanted.0))
    }
}

#[cfg(test)]
pub(crate) fn try_rules(text: &str) -> anyhow::Result<ProgramRules> {
    let file = crate::config::file::ConfigFile::parse(text)?;
    Ok(ProgramRules::resolve("m.toml", &file.program)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::assert_says;

    #[test]
    fn an_invalid_rule_is_named_with_its_own_line() {
        let starts = |text: &str, says: &str| {
            let error = format!("{:#}", try_rules(text).unwrap_err());
            assert!(error.starts_with(says), "{error}");
        };
        let fine = "[[program]]\nqos = 0.5\n\n[[program]]\n";
        let second = |rule: &str| format!("{fine}{rule}\n");
        starts(
            &second("name = \"a\""),
            "line 4: program rule 2: sets nothing",
        );
        let unknown = second("users = [\"no-such-user\"]\nqos = 0.5");
        starts(&unknown, "line 4: program rule 2: user");
        let inline = "program = [\n  { qos = 0.5 },\n  { name = \"a\" },\n]\n";
        starts(inline, "line 3: program rule 2");
        let access = "[[access]]\nmax_qos = 0.5\n[[access]]\nusers = [\"no-such-user\"]\n";
        starts(access, "line 3: access rule 2");
    }

    #[test]
    fn an_invalid_rule_is_named_with_its_fix() {
        let long = format!("build_id = \"{}\"\nqos = 0.5", "ab".repeat(65));
        for (text, says) in [
            (&*long, &["8 to 128 hex"][..]),
            ("name = \"a\"", &["program rule 1", "sets nothing"]),
            (
                "teams = \"virtual\"\nruntime = \"off\"",
                &["program rule 1", "leave one of them out"],
            ),
            (
                "path = \"bin/a\"\nqos = 0.5",
                &["line 1", "program rule 1", "bin/a", "absolute"],
            ),
            (
                "name = \"bin/a\"\nqos = 0.5",
                &["line 1", "program rule 1", "bin/a", "as path"],
            ),
            ("name = \"[a\"\nqos = 0.5", &["line 2", "[a", "?"]),
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
            assert_says(&error, says);
        }
    }

    #[test]
    fn the_shipped_list_can_be_read_and_names_programs() {
        let shipped = ProgramRules::shipped().unwrap();
        assert!(!shipped.rules.is_empty());
        for (_, rule) in &shipped.rules {
            // A name says nothing about the build.
            assert!(rule.build_id.is_some(), "{rule:?}");
            assert!(rule.users.is_empty() && rule.groups.is_empty());
        }
    }
}
