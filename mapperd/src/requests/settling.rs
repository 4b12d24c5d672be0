//! What a launch gets where its user left something open, and what is kept of how that came about.
//!
//! A flag of the user comes before all [rules](crate::config::program_rules); for the team mode this is the order:
//!
//! 1. `--teams` with a mode,
//! 2. with `--teams auto`, what `--check-teams` found on this machine for this build,
//! 3. the operator's rules, also without `--teams`: whoever writes one answers for it,
//! 4. with `--teams auto`, the shipped list,
//! 5. `fixed`, under which every program gives the results of a conforming run.
//!
//! Where what was decided cannot be had (the program's runtime does not serve it, or there is no runtime
//! interface), teams are fixed, and what is told names that reason.
//!
//! What a rule sets is afterwards held against what the user may ask for at all (ADR 16), since the path
//! and the build id are what the user's launcher says they are.

use crate::config::peer::Peer;
use crate::config::program_rules::{ProgramRule, ProgramRules};
use crate::registry::provenance::{Provenance, StartedFile};
use mapper_control::schema::{
    BY_DEFAULT, LaunchRequest, LinkedOpenMp, OpenSetting, Partition, RuntimeChoice, Settled,
    TeamsAsked,
};
use mapper_model::TeamMode;

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
    if rule.and_then(|rule| rule.isolated) == Some(true) && open(OpenSetting::Partition) {
        request.partition = Partition::Isolated;
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
        TeamsAsked::ByName | TeamsAsked::Unknown => (request.spec.teams, "as asked".to_owned()),
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
    use crate::config::program_rules::testing::{peer, rules};
    use mapper_control::schema::{Program, Schedule, Threads};
    use mapper_model::{AppName, AppSpec, Qos};

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
        let text = "[[program]]\nbuild_id = \"00C0FFEE\"\nqos = 0.5\nthreads = \"all\"\nschedule = \"adaptive\"\nruntime = \"off\"\nisolated = true\n";
        let mut asked = request(TeamsAsked::Open, TeamMode::Fixed, LinkedOpenMp::Libgomp);
        let none = ProgramRules::default();
        let settled = settle(&rules(text), &none, &peer(), &mut asked).0;
        assert_eq!((settled.threads, settled.schedule), (None, None));
        assert_eq!(asked.spec.qos, Qos::default());
        assert_eq!(asked.runtime, RuntimeChoice::On);
        assert_eq!(asked.partition, Partition::Member);
        asked.open = [
            OpenSetting::Qos,
            OpenSetting::Threads,
            OpenSetting::Schedule,
            OpenSetting::Runtime,
            OpenSetting::Partition,
        ]
        .into();
        let settled = settle(&rules(text), &none, &peer(), &mut asked).0;
        assert_eq!(settled.threads, Some(Threads::All));
        assert_eq!(settled.schedule, Some(Schedule::Adaptive));
        assert_eq!(asked.spec.qos.get(), 0.5);
        assert_eq!(asked.runtime, RuntimeChoice::Off);
        assert_eq!(asked.partition, Partition::Isolated);
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
    fn a_runtime_interface_that_is_off_is_the_reported_reason() {
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
        // Of several rules the second, so that the names differ.
        let list = format!(
            "{}{}",
            "[[program]]\nname = \"cg\"\nqos = 0.5\n",
            text("teams = \"follow\"")
        );
        let said = settle(&rules(&off), &rules(&list), &peer(), &mut ruled_out);
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
}
