//! The reply to `Status`, and the parts that it shares with `Explain`.

use crate::config::accounts::{Accounts, is_privileged};
use crate::config::settings::Settings;
use crate::decider::Decider;
use crate::machine::Machine;
use crate::registry::Registry;
use crate::registry::app::App;
use crate::requests::permit::Permit;
use crate::telemetry::Telemetry;
use mapper_abi::{ReportFlags, RuntimeReport, Runtimes};
use mapper_control::schema::{
    AppStatus, DaemonStatus, GivenReason, HeldUpChange, MemoryPolicy, Partition, PartitionStatus,
    RuntimeState, RuntimeStatus, SocketLayout, Status, StretchedInterval, TopologyStatus,
};
use mapper_control::{PROTOCOL, Reply};
use mapper_host::enforce::{HeldUp, Standing};
use mapper_model::{Bottleneck, Loan, Reason, TeamMode};

/// The state of the daemon, the machine and the applications, as far as the user may see it.
pub(crate) fn status(
    permit: &Permit<'_>,
    settings: &Settings,
    registry: &Registry,
    machine: &Machine,
    decider: &Decider,
    telemetry: &Telemetry,
) -> Reply {
    let topology = decider.topology();
    let long = machine.enforcer.held_up().filter(HeldUp::is_long);
    let config = decider.controller.config();
    let apps = registry.apps.iter();
    let apps = apps.map(|app| match permit.may_see_app(app) {
        true => app_status(app, machine, decider),
        false => outline(app, &machine.accounts),
    });
    Reply::Status(Box::new(Status {
        protocol: PROTOCOL,
        daemon: DaemonStatus {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
            uptime_ns: machine.clock.now_ns().saturating_sub(telemetry.started_ns),
            interval_ns: settings.interval.nanoseconds(),
            stretched: stretched(decider),
            decisions: decider.decisions,
            allocation: config.allocation.clone(),
            mapping: config.mapping.clone(),
            enforcer: machine.enforcer_selection.clone(),
            counters: machine.counters_selection.clone(),
            isolation: Some(machine.isolation.clone()),
            held_up: long.map(|held| HeldUpChange {
                change: held.change,
                lasting_ns: u64::try_from(held.lasting.as_nanos()).unwrap_or(u64::MAX),
            }),
        },
        topology: TopologyStatus {
            cpus: topology.cpus().len(),
            cores: count(topology.cores()),
            sockets: count(topology.sockets()),
            nodes: count(topology.nodes()),
            usable: machine.usable.clone(),
            free: registry.free(&machine.usable),
            source: machine.topology_source.describe(),
            layout: SocketLayout::of(topology),
        },
        apps: apps.collect(),
    }))
}

pub(crate) fn stretched(decider: &Decider) -> Option<StretchedInterval> {
    let stretched = decider.pacing.stretched()?;
    Some(StretchedInterval {
        interval_ns: stretched.interval_ns,
        asked_ns: stretched.asked_ns,
        pass_ns: stretched.pass_ns,
    })
}

fn app_status(app: &App, machine: &Machine, decider: &Decider) -> AppStatus {
    let record = &app.record;
    let profile = decider.controller.profile(record.id);
    let share = record.planned.as_ref().map(|planned| &planned.share);
    let operator = record.standing.set_by_operator();
    let adoption = record.origin.adoption();
    AppStatus {
        command: record.command.clone(),
        state: match (operator, share) {
            (Some(_), _) => "set by others".to_owned(),
            (None, _) if app.limit.is_some() => "limited".to_owned(),
            (None, Some(share)) => share.state.clone(),
            (None, None) => String::new(),
        },
        idle_time: Some(&app.idle_time.cpus)
            .filter(|cpus| !cpus.is_empty())
            .cloned(),
        floor: share.and_then(|share| share.floor),
        performance: match profile.and_then(|p| p.performance) {
            Some(performance) => Some(performance.into()),
            // As it was on its own CPUs alone, which its promise is for.
            None if !app.idle_time.is_none() => record.accounting.account().performance,
            None => None,
        },
        memory_traffic: profile.and_then(|p| p.memory),
        bottleneck: profile.map(|p| p.bottleneck).unwrap_or_default(),
        teams: record.spec.teams,
        teams_by: record.provenance.teams_by.clone(),
        runtime: runtime_status(app),
        memory: record.memory,
        partition: partition_status(app, machine),
        adopted: adoption.map(|adoption| adoption.target.clone()),
        reasons: share.map_or_else(Vec::new, |share| reasons(&share.explanation.reasons)),
        sentence: match (operator, &record.planned) {
            (Some(cpus), _) => format!(
                "the operator set its CPUs to {cpus}; it is left there until all CPUs are \
                 written to its cpuset.cpus"
            ),
            (None, Some(planned)) => planned.sentence.clone(),
            (None, None) if app.limit.is_some() => {
                "a limit around it allows none of the assignable CPUs; it is left where it is"
                    .to_owned()
            }
            (None, None) => String::new(),
        },
        ..outline(app, &machine.accounts)
    }
}

/// The outcome of an isolation that was requested, or that an earlier daemon left.
pub(crate) fn partition_status(app: &App, machine: &Machine) -> Option<PartitionStatus> {
    let (in_force, why_not) = match machine.enforcer.standing(app.record.id) {
        Standing::Member if app.record.partition.is_member() => return None,
        Standing::Member => (Partition::Member, None),
        Standing::Isolated => (Partition::Isolated, None),
        Standing::NotIsolated(why) => (Partition::Member, Some(why)),
    };
    Some(PartitionStatus { in_force, why_not })
}

/// What any user may see of an application: which it is, and what says how the machine is divided. `SECURITY.md` names
/// the fields; the others are empty or have their default.
fn outline(app: &App, accounts: &Accounts) -> AppStatus {
    let record = &app.record;
    // A program that root adopted still counts for the user who runs it.
    let by = Some(record.requested_by()).filter(|by| !is_privileged(*by));
    let account = accounts.of(by.unwrap_or(record.uid));
    let planned = record.planned.as_ref();
    AppStatus {
        id: record.id,
        name: record.spec.name.clone(),
        pid: record.first_process.pid,
        uid: record.uid,
        account: Some(account).filter(|account| *account != record.uid),
        command: String::new(),
        state: AppStatus::OUTLINED.to_owned(),
        cpus: app.effective.clone(),
        cpu_count: app.counted_cpus(),
        fair_cpus: planned.map_or(0, |planned| planned.share.fair),
        borrowed: planned.and_then(|planned| match &planned.loan {
            Loan::Borrows { cpus } => Some(cpus.clone()),
            Loan::Lends | Loan::None => None,
        }),
        idle_time: None,
        qos: record.spec.qos,
        weight: record.spec.weight,
        min_cpus: record.spec.cpus.min(),
        max_cpus: record.spec.cpus.max(),
        floor: None,
        performance: None,
        memory_traffic: None,
        bottleneck: Bottleneck::default(),
        teams: TeamMode::default(),
        teams_by: String::new(),
        runtime: RuntimeStatus::default(),
        memory: MemoryPolicy::default(),
        partition: None,
        adopted: None,
        reasons: Vec::new(),
        sentence: String::new(),
    }
}

/// What the page says of the runtime.
pub(crate) fn runtime_status(app: &App) -> RuntimeStatus {
    let Some(page) = &app.page else {
        return RuntimeStatus::default();
    };
    let report = page.reader.report();
    let mut runtimes = Vec::new();
    for (bit, name) in [(Runtimes::LIBGOMP, "libgomp"), (Runtimes::LIBOMP, "libomp")] {
        if report.runtimes.contains(bit) {
            runtimes.push(name.to_owned());
        }
    }
    let mut notes = Vec::new();
    notes.extend(app.record.provenance.unserved_because());
    let unreachable = app.record.provenance.unreachable_because();
    notes.extend(report_notes(&report));
    // The programs that it starts may be reached even where it cannot.
    let state = match unreachable {
        _ if report.attached() => RuntimeState::Attached,
        None => RuntimeState::Waiting,
        Some(why) => {
            notes.insert(0, why);
            RuntimeState::Unreachable
        }
    };
    RuntimeStatus {
        state,
        runtimes,
        notes,
    }
}

/// What the shim reports about the application, in words.
fn report_notes(report: &RuntimeReport) -> Vec<String> {
    let flags = [
        (
            ReportFlags::WAITS_SPIN,
            "its barriers may spin for long, so that it slows down when it is shrunk",
        ),
        (
            ReportFlags::SLOTS_EXHAUSTED,
            "it has more threads than slots, so some threads share one",
        ),
        (
            ReportFlags::OBSERVED,
            "a libomp that is linked in statically, or that a library keeps to itself, is observed by OMPT: \
             progress and waiting",
        ),
        (
            ReportFlags::PARKING_ENDED,
            "parking ended: iterations of its loops wait for one another, or take very long",
        ),
        (
            ReportFlags::STORAGE_SHARED,
            "threads of its virtual teams share thread-local storage where they alternate on one kernel thread",
        ),
    ];
    let flags = flags.iter();
    let set = flags.filter(|(flag, _)| report.flags.contains(*flag));
    let mut notes: Vec<String> = set.map(|(_, note)| (*note).to_owned()).collect();
    notes.extend(report.teams_off.map(|off| off.to_string()));
    if report.preemptions > 0 {
        notes.push(format!(
            "regions preempted: {}; a thread waited for others without OpenMP, or computed for long",
            report.preemptions
        ));
    }
    notes
}

pub(crate) fn reasons(reasons: &[Reason]) -> Vec<GivenReason> {
    reasons.iter().cloned().map(GivenReason::from).collect()
}

fn count<T>(things: &[T]) -> u32 {
    u32::try_from(things.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::watch::Watches;
    use crate::registry::app::{AppRecord, Lease, Standing as Placed};
    use crate::registry::origin::{Adoption, Origin};
    use crate::registry::page::Page;
    use crate::registry::process::Process;
    use crate::registry::provenance::Provenance;
    use mapper_abi::TeamsOff;
    use mapper_control::schema::AdoptTarget;
    use mapper_model::{
        AppId, AppSpec, CpuRange, Explanation, IdleTime, PlannedApp, Qos, Share, Sharing, Strategy,
        Weight,
    };

    /// The sentences of `SECURITY.md` that say what the test below does.
    const SHOWN: &str = "Of another user's application: number, name, user, process number, CPUs \
                         and their count, borrowed CPUs, fair share, promise, weight, minimum and \
                         maximum of CPUs. Not";

    /// An application of which everything is known.
    fn filled() -> App {
        let mut spec = AppSpec::named("fft".parse().unwrap());
        spec.qos = Qos::new(0.8).unwrap();
        spec.weight = Weight::new(2.0).unwrap();
        spec.cpus = CpuRange::new(2, Some(6)).unwrap();
        spec.teams = TeamMode::Follow;
        let planned = PlannedApp {
            app: AppId(7),
            name: spec.name.clone(),
            cpus: "0-3".parse().unwrap(),
            loan: Loan::Borrows {
                cpus: "3".parse().unwrap(),
            },
            idle_time: IdleTime::default(),
            strategy: Strategy::Spread,
            share: Share {
                app: AppId(7),
                cpus: 4,
                sharing: Sharing::Exclusive,
                by_node: None,
                fair: 5,
                floor: Some(1e9),
                spare: 1,
                norm_eff: Some(0.9),
                state: "steady".to_owned(),
                explanation: Explanation {
                    before: 4,
                    after: 4,
                    reasons: vec![Reason::Steady],
                },
            },
            sentence: "steady".to_owned(),
        };
        let process = Process {
            pid: 11,
            started_ticks: 4,
        };
        let origin = Origin::Adopted(Adoption {
            target: AdoptTarget::Pid(11),
            by: 1000,
            rule: None,
            fits_rule: None,
        });
        let record = AppRecord {
            command: "fft 3".to_owned(),
            provenance: Provenance {
                teams_by: "rule 2".to_owned(),
                ..Provenance::default()
            },
            memory: MemoryPolicy::Interleave,
            partition: Partition::Isolated,
            standing: Placed::Managed,
            planned: Some(planned),
            own_mask: Some("0-5".parse().unwrap()),
            ..AppRecord::new(AppId(7), spec, origin, 1000, process, 0)
        };
        let mut app = App::new(record, Lease::Ended, Watches::default());
        app.page = Some(Page::create().unwrap());
        app.effective = "0-3".parse().unwrap();
        app
    }

    #[test]
    fn another_user_gets_of_an_application_what_security_md_names_and_no_more() {
        let security = include_str!("../../../SECURITY.md");
        let security: Vec<&str> = security.split_whitespace().collect();
        assert!(security.join(" ").contains(SHOWN), "{SHOWN}");
        // Every field by name: a new one is decided on here, and named in SECURITY.md if it is shown.
        let shown = AppStatus {
            id: AppId(7),
            name: "fft".parse().unwrap(),
            pid: 11,
            uid: 1000,
            account: None,
            cpus: "0-3".parse().unwrap(),
            cpu_count: 4,
            borrowed: Some("3".parse().unwrap()),
            fair_cpus: 5,
            qos: Qos::new(0.8).unwrap(),
            weight: Weight::new(2.0).unwrap(),
            min_cpus: 2,
            max_cpus: Some(6),
            // Not shown.
            command: String::new(),
            state: "another user's".to_owned(),
            idle_time: None,
            floor: None,
            performance: None,
            memory_traffic: None,
            bottleneck: Bottleneck::None,
            teams: TeamMode::Fixed,
            teams_by: String::new(),
            runtime: RuntimeStatus::default(),
            memory: MemoryPolicy::Keep,
            partition: None,
            adopted: None,
            reasons: Vec::new(),
            sentence: String::new(),
        };
        assert_eq!(outline(&filled(), &Accounts::default()), shown);
    }

    #[test]
    fn a_program_of_a_subordinate_uid_is_of_the_user_who_has_that() {
        let etc = tempfile::tempdir().unwrap();
        let files = [("subuid", "alice:1000:9\n"), ("passwd", "alice:x:77:77\n")];
        for (name, text) in files {
            std::fs::write(etc.path().join(name), text).unwrap();
        }
        let accounts = Accounts::read(etc.path());
        let status = outline(&filled(), &accounts);
        assert_eq!((status.uid, status.user()), (1000, 77));
    }

    #[test]
    fn what_the_shim_reports_is_a_note_each() {
        let report = |flags, teams_off, preemptions| RuntimeReport {
            flags: flags | ReportFlags::WAIT_MEASURED,
            teams_off,
            preemptions,
            ..RuntimeReport::default()
        };
        let (observed, ended) = (TeamsOff::Observed, TeamsOff::Stalled);
        for (report, words) in [
            (
                report(ReportFlags::OBSERVED, Some(observed), 0),
                &["observed by OMPT", "no way to set team sizes"][..],
            ),
            (
                report(ReportFlags::STORAGE_SHARED, None, 0),
                &["share thread-local storage"],
            ),
            (
                report(ReportFlags::PARKING_ENDED, Some(ended), 6),
                &[
                    "parking ended",
                    "teams are not virtual",
                    "regions preempted: 6",
                ],
            ),
            (report(ReportFlags::default(), None, 0), &[]),
        ] {
            let notes = report_notes(&report);
            assert_eq!(notes.len(), words.len(), "{notes:?}");
            for (note, word) in notes.iter().zip(words) {
                assert!(note.contains(word), "{note}");
            }
        }
    }
}
