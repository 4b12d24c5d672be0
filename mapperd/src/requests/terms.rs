//! From what the user requests to what a launch gets.
//!
//! Each source says something of a launch or leaves it open. The first that says something decides:
//!
//! 1. the user, by an option or a variable of the environment,
//! 2. what `--check-teams` found on this machine for this build,
//! 3. the operator's [rules](crate::config::program_rules),
//! 4. the shipped list (for the team mode alone),
//! 5. the default: `virtual` teams, which keep the size that the program expects on as many CPUs as it has. The shim
//!    gives ordinary teams to programs that it cannot serve.
//!
//! The team mode alone is `auto` where the user names none. Where the program cannot have that mode (its runtime does not
//! support it, or there is no runtime interface), teams are fixed, and the reply gives the reason unless it was the default.
//!
//! The result is checked afterwards against what the user may have (ADR 16), since the user's launcher reports path and
//! build id.

use crate::config::peer::Peer;
use crate::config::program_rules::{ProgramRule, ProgramRules};
use crate::registry::pending::Settlement;
use crate::registry::provenance::{EarlierRun, Provenance, StartedFile, WAITED_BY_SPINNING};
use mapper_control::schema::{
    BY_DEFAULT, LaunchRequest, LinkedOpenMp, Partition, RuntimeChoice, ShimFile, TeamsWish, Terms,
    Threads,
};
use mapper_model::{AppSpec, IdleTimeUse, Lending, TeamMode};

/// Whether a launch has the runtime interface; without it teams are fixed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Interface {
    On,
    /// `--no-runtime`.
    OffByUser,
    OffByRule,
    /// The user wants it, and the launcher has no shim.
    ShimMissing,
}

/// [`Terms::teams_by`] where the user does not want the runtime interface.
const WITHOUT_RUNTIME: &str = "no runtime interface, as asked";
/// [`Terms::teams_by`] where the launcher found no shim.
const WITHOUT_SHIM: &str = "no runtime interface, its library was not found";

/// Combines the user, the catalogue, the operator's rules, the shipped list and the defaults.
pub(crate) fn settle(
    operators: &ProgramRules,
    shipped: &ProgramRules,
    peer: &Peer,
    request: &LaunchRequest,
    earlier: EarlierRun,
) -> Settlement {
    let wishes = &request.wishes;
    let program = request.program.as_ref();
    let found = operators.find(peer, program);
    let rule = found.as_ref().map(|(rule, _)| *rule);

    let decided = teams_decided(wishes.teams, found.clone(), || shipped.find(peer, program));
    let interface = match (wishes.runtime, rule.and_then(|rule| rule.runtime)) {
        (Some(RuntimeChoice::Off), _) => Interface::OffByUser,
        _ if request.shim == ShimFile::Missing => Interface::ShimMissing,
        (None, Some(RuntimeChoice::Off)) if !wishes.need_runtime() => Interface::OffByRule,
        _ => Interface::On,
    };
    let linked = program.map_or(LinkedOpenMp::default(), |program| program.openmp);
    let spun = decided.is_none() && earlier == EarlierRun::WaitedBySpinning;
    let (decided, decided_by) = decided.unwrap_or_else(|| match (interface, earlier) {
        (Interface::On, EarlierRun::Nothing) => (default_of(linked), BY_DEFAULT.to_owned()),
        (Interface::On, EarlierRun::WaitedBySpinning) => {
            (default_of(linked), WAITED_BY_SPINNING.to_owned())
        }
        _ => (TeamMode::Fixed, BY_DEFAULT.to_owned()),
    });
    let served = interface == Interface::On && linked.serves(decided).is_ok();
    let teams = if served { decided } else { TeamMode::Fixed };
    let teams_by = match (interface, &found) {
        (Interface::ShimMissing, _) => WITHOUT_SHIM.to_owned(),
        (Interface::OffByUser, _) if decided != TeamMode::Fixed => WITHOUT_RUNTIME.to_owned(),
        (Interface::OffByRule, Some((_, name))) if decided != TeamMode::Fixed => name.clone(),
        _ => decided_by,
    };

    let build = program.and_then(|program| StartedFile::from(program).build(&request.command));
    let qos = wishes.qos.or(rule.and_then(|rule| rule.qos));
    let isolated = rule.and_then(|rule| rule.isolated) == Some(true);
    let by_rule = isolated.then_some(Partition::Isolated);
    let lend = rule.and_then(|rule| rule.lend);
    let lends_by_rule = lend.map(|lend| match lend {
        true => Lending::WhenIdle,
        false => Lending::Never,
    });
    let threads = rule.and_then(|rule| rule.threads);
    let schedule = rule.and_then(|rule| rule.schedule);
    // A team that waits by spinning is best no larger than its CPUs.
    let usual_threads = match spun {
        true => Threads::Allocated,
        false => Threads::by_default(teams),
    };
    Settlement {
        spec: AppSpec {
            name: wishes.name.clone(),
            build: build.map(|build| build.key(peer.uid, &request.command)),
            qos: qos.unwrap_or_default(),
            weight: wishes.weight,
            cpus: wishes.cpus,
            resizing: wishes.resizing,
            lending: wishes.lending.or(lends_by_rule).unwrap_or_default(),
            idle_time: IdleTimeUse::Never,
            teams,
        },
        runtime: match interface {
            Interface::On => RuntimeChoice::On,
            _ => RuntimeChoice::Off,
        },
        partition: wishes.partition.or(by_rule).unwrap_or_default(),
        terms: Terms {
            teams,
            teams_by: teams_by.clone(),
            threads: wishes.threads.or_rule(threads.or(Some(usual_threads))),
            schedule: wishes.schedule.or_rule(schedule),
            max_cpus: wishes.cpus.max(),
        },
        provenance: Provenance {
            teams_by,
            unserved: (interface == Interface::On && !served).then_some(decided),
            program: program.map(StartedFile::from),
        },
    }
}

fn teams_decided<'r>(
    wish: Option<TeamsWish>,
    operators: Option<(&'r ProgramRule, String)>,
    shipped: impl FnOnce() -> Option<(&'r ProgramRule, String)>,
) -> Option<(TeamMode, String)> {
    let of_rule = |(rule, name): (&ProgramRule, String)| Some((rule.teams?, name));
    let by_rule = operators.and_then(of_rule);
    match wish {
        Some(TeamsWish::Named(mode)) => Some((mode, "as asked".to_owned())),
        Some(TeamsWish::Checked(mode)) => Some((mode, "found by --check-teams".to_owned())),
        Some(TeamsWish::Auto) | None => by_rule.or_else(|| shipped().and_then(of_rule)),
    }
}

/// The mode of which nobody has said anything.
const fn default_of(linked: LinkedOpenMp) -> TeamMode {
    match linked {
        // The shim cannot come into the program itself, and larger teams would be left to themselves.
        LinkedOpenMp::OtherLoader => TeamMode::Fixed,
        _ if linked.serves(TeamMode::Virtual).is_ok() => TeamMode::Virtual,
        _ => TeamMode::Fixed,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::peer::Peer;
    use crate::config::program_rules::try_rules;
    use mapper_control::schema::{Program, Schedule, Wish, Wishes};
    use mapper_model::{AppName, Qos};

    fn request(teams: Option<TeamsWish>, openmp: LinkedOpenMp) -> LaunchRequest {
        let mut wishes = Wishes::named(AppName::new("fft").unwrap());
        wishes.teams = teams;
        let mut request = LaunchRequest::new(7, ["fft"], wishes);
        request.program = Some(Program {
            path: "/opt/solvers/bin/fft".to_owned(),
            build_id: Some("00c0ffee00c0ffee".to_owned()),
            openmp,
        });
        request
    }

    fn settled(operators: &str, shipped: &str, request: &LaunchRequest) -> Settlement {
        let rules = |text| try_rules(text).unwrap();
        let peer = Peer::of(1000, &[100]);
        let earlier = EarlierRun::Nothing;
        let settlement = settle(&rules(operators), &rules(shipped), &peer, request, earlier);
        assert_eq!(settlement.terms.teams, settlement.spec.teams);
        settlement
    }

    fn teams(operators: &str, shipped: &str, request: &LaunchRequest) -> (TeamMode, String) {
        let terms = settled(operators, shipped, request).terms;
        (terms.teams, terms.teams_by)
    }

    fn named(mode: TeamMode) -> Option<TeamsWish> {
        Some(TeamsWish::Named(mode))
    }

    const FIXED: TeamMode = TeamMode::Fixed;
    const FOLLOW: TeamMode = TeamMode::Follow;
    const VIRTUAL: TeamMode = TeamMode::Virtual;

    fn by(mode: TeamMode, by: &str) -> (TeamMode, String) {
        (mode, by.to_owned())
    }

    #[test]
    fn the_user_decides_then_the_catalogue_the_operator_the_shipped_list_and_the_default() {
        let operators = "[[program]]\nname = \"cg\"\nteams = \"fixed\"\n[[program]]\nname = \"f*\"\nteams = \"virtual\"\n";
        let shipped = "[[program]]\npath = \"/opt/**\"\nteams = \"follow\"\n";
        let check = |operators, shipped, wish, mode, who| {
            let request = request(wish, LinkedOpenMp::Libgomp);
            assert_eq!(teams(operators, shipped, &request), by(mode, who));
        };
        check(operators, shipped, named(FIXED), FIXED, "as asked");
        let checked = Some(TeamsWish::Checked(FOLLOW));
        check(
            operators,
            shipped,
            checked,
            FOLLOW,
            "found by --check-teams",
        );
        let auto = Some(TeamsWish::Auto);
        for wish in [auto, None] {
            check(operators, shipped, wish, VIRTUAL, "rule 2 of m.toml");
        }
        for wish in [auto, None] {
            check("", shipped, wish, FOLLOW, "rule 1 of m.toml");
            check("", "", wish, VIRTUAL, BY_DEFAULT);
        }
    }

    #[test]
    fn by_default_teams_are_virtual_where_the_shim_may_serve_the_program_and_nothing_is_amiss_elsewhere()
     {
        for (openmp, mode) in [
            (LinkedOpenMp::NotAtStart, VIRTUAL),
            (LinkedOpenMp::Libgomp, VIRTUAL),
            (LinkedOpenMp::StaticProgram, VIRTUAL),
            (LinkedOpenMp::Libomp, FIXED),
            (LinkedOpenMp::StaticLibgomp, FIXED),
            (LinkedOpenMp::OtherLoader, FIXED),
        ] {
            let settlement = settled("", "", &request(None, openmp));
            assert_eq!(settlement.terms.teams, mode, "{openmp:?}");
            assert_eq!(settlement.terms.teams_by, BY_DEFAULT);
            assert_eq!(settlement.provenance.unserved_because(), None);
        }
    }

    #[test]
    fn a_program_that_waited_by_spinning_has_a_team_for_its_cpus_unless_a_mode_is_asked_for() {
        let none = try_rules("").unwrap();
        let teams = |wish| {
            let request = request(wish, LinkedOpenMp::Libgomp);
            let earlier = EarlierRun::WaitedBySpinning;
            settle(&none, &none, &Peer::of(1000, &[100]), &request, earlier).terms
        };
        let terms = teams(None);
        assert_eq!(
            (terms.teams, terms.threads),
            (VIRTUAL, Some(Threads::Allocated))
        );
        assert_eq!(terms.teams_by, WAITED_BY_SPINNING);
        assert_eq!(teams(named(VIRTUAL)).threads, Some(Threads::All));
    }

    #[test]
    fn a_rule_decides_what_is_open_and_nothing_else() {
        let text = "[[program]]\nbuild_id = \"00C0FFEE\"\nqos = 0.5\nthreads = \"all\"\nschedule = \"adaptive\"\nruntime = \"off\"\nisolated = true\n";
        let by_rule = settled(text, "", &request(None, LinkedOpenMp::Libgomp));
        assert_eq!(by_rule.terms.threads, Some(Threads::All));
        assert_eq!(by_rule.terms.schedule, Some(Schedule::Adaptive));
        assert_eq!(by_rule.spec.qos.get(), 0.5);
        assert_eq!(by_rule.runtime, RuntimeChoice::Off);
        assert_eq!(by_rule.partition, Partition::Isolated);

        let mut asked = request(named(VIRTUAL), LinkedOpenMp::Libgomp);
        asked.wishes.qos = Some(Qos::default());
        asked.wishes.threads = Wish::Asked(Threads::Allocated);
        asked.wishes.schedule = Wish::Asked(Schedule::AsWritten);
        asked.wishes.partition = Some(Partition::Member);
        let by_user = settled(text, "", &asked);
        assert_eq!(by_user.terms.threads, Some(Threads::Allocated));
        assert_eq!(by_user.terms.schedule, Some(Schedule::AsWritten));
        assert_eq!(by_user.spec.qos, Qos::default());
        assert_eq!(by_user.runtime, RuntimeChoice::On);
        assert_eq!(by_user.partition, Partition::Member);
    }

    #[test]
    fn what_the_environment_says_stays() {
        let text = "[[program]]\nthreads = \"all\"\nschedule = \"adaptive\"\n";
        let mut request = request(None, LinkedOpenMp::Libgomp);
        request.wishes.threads = Wish::Environment;
        request.wishes.schedule = Wish::Environment;
        let terms = settled(text, "", &request).terms;
        assert_eq!((terms.threads, terms.schedule), (None, None));
    }

    #[test]
    fn teams_that_the_shim_resizes_start_from_all_cpus() {
        for (mode, threads) in [
            (FIXED, Threads::Allocated),
            (FOLLOW, Threads::All),
            (VIRTUAL, Threads::All),
        ] {
            let terms = settled("", "", &request(named(mode), LinkedOpenMp::Libgomp)).terms;
            assert_eq!(terms.threads, Some(threads), "{mode}");
        }
        // Real teams keep their size.
        let terms = settled("", "", &request(named(VIRTUAL), LinkedOpenMp::Libomp)).terms;
        assert_eq!(terms.threads, Some(Threads::Allocated));
    }

    #[test]
    fn programs_that_cannot_have_a_mode_get_fixed_teams_and_the_reason() {
        for (openmp, mode, why) in [
            (LinkedOpenMp::Libomp, VIRTUAL, "libomp"),
            (LinkedOpenMp::StaticLibgomp, FOLLOW, "statically"),
        ] {
            let settlement = settled("", "", &request(named(mode), openmp));
            assert_eq!(settlement.terms.teams, FIXED);
            let said = settlement.provenance.unserved_because().unwrap();
            assert!(said.contains(why) && said.contains(mode.as_str()), "{said}");
        }
        let settlement = settled("", "", &request(named(FOLLOW), LinkedOpenMp::Libomp));
        assert_eq!(settlement.terms.teams, FOLLOW);
        assert_eq!(settlement.provenance.unserved_because(), None);
    }

    #[test]
    fn the_loader_and_other_static_programs_get_the_mode_for_what_they_start() {
        let request = request(named(VIRTUAL), LinkedOpenMp::StaticProgram);
        let settlement = settled("", "", &request);
        assert_eq!(settlement.terms.teams, VIRTUAL);
        assert_eq!(settlement.provenance.unserved_because(), None);
        let note = settlement.provenance.unreachable_because().unwrap();
        assert!(note.contains("linked statically"), "{note}");
    }

    #[test]
    fn without_the_runtime_interface_that_is_the_reason_for_fixed_teams() {
        let text = |more: &str| format!("[[program]]\nname = \"fft\"\n{more}\n");
        let virtual_ = text("teams = \"virtual\"");
        let request = |wish| request(wish, LinkedOpenMp::Libgomp);
        let unwanted = |wish| {
            let mut request = request(wish);
            request.wishes.runtime = Some(RuntimeChoice::Off);
            request
        };
        let no_runtime = teams(&virtual_, "", &unwanted(None));
        assert_eq!(no_runtime, by(FIXED, WITHOUT_RUNTIME));
        for wish in [named(VIRTUAL), None, Some(TeamsWish::Auto)] {
            let mut missing = request(wish);
            missing.shim = ShimFile::Missing;
            let rule = text("runtime = \"on\"\nteams = \"virtual\"");
            let settlement = settled(&rule, "", &missing);
            assert_eq!(settlement.terms.teams_by, WITHOUT_SHIM);
            assert_eq!(settlement.terms.teams, FIXED);
            assert_eq!(settlement.runtime, RuntimeChoice::Off);
        }
        // Nor does an earlier check, which the user did not ask for now.
        let checked = request(Some(TeamsWish::Checked(VIRTUAL)));
        let off = teams(&text("runtime = \"off\""), "", &checked);
        assert_eq!(off.0, FIXED);
        // The operator's rule comes before the mode of the shipped list, whose rule is the second there: names differ.
        let first = "[[program]]\nname = \"cg\"\nqos = 0.5\n".to_owned();
        let list = first + &text("teams = \"follow\"");
        let ruled_out = teams(
            &text("runtime = \"off\""),
            &list,
            &request(Some(TeamsWish::Auto)),
        );
        assert_eq!(ruled_out, by(FIXED, "rule 1 of m.toml"));
        // Fixed teams that the user asked for stay the user's choice.
        let asked = teams("", "", &unwanted(named(FIXED)));
        assert_eq!(asked, by(FIXED, "as asked"));
    }

    #[test]
    fn a_program_of_which_nothing_is_known_gets_the_rules_that_say_nothing_of_the_file() {
        let text = "[[program]]\npath = \"**\"\nqos = 0.2\n[[program]]\nname = \"*\"\nqos = 0.3\n\
            [[program]]\nbuild_id = \"00c0ffee\"\nqos = 0.4\n[[program]]\nusers = [\"1000\"]\nqos = 0.5\n";
        let mut unknown = request(None, LinkedOpenMp::NotAtStart);
        unknown.program = None;
        assert_eq!(settled(text, "", &unknown).spec.qos.get(), 0.5);
    }

    #[test]
    fn a_rule_is_for_its_users_only() {
        let mode = |who: &str| {
            let rule = format!("[[program]]\n{who}\nteams = \"follow\"\n");
            teams(&rule, "", &request(None, LinkedOpenMp::Libgomp)).0
        };
        assert_eq!(mode("users = [\"1000\"]"), TeamMode::Follow);
        assert_eq!(mode("groups = [\"100\"]"), TeamMode::Follow);
        assert_eq!(mode("users = [\"1001\"]"), TeamMode::Virtual);
    }
}
