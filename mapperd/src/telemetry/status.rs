//! Answers to questions about what the daemon does.

use crate::daemon::{App, Daemon};
use crate::machine::limited;
use crate::socket::message::{Answer, Peer, Served};
use mapper_abi::{ReportFlags, RuntimeReport, Runtimes};
use mapper_control::schema::{
    AppStatus, CurveEntry, DaemonStatus, DecisionEntry, ExplainReply, Partition, PartitionStatus,
    PoliciesReply, PolicyEntry, PolicyKind, RuntimeState, RuntimeStatus, Selection, SocketLayout,
    Status, StretchedInterval, ToldReason, TopologyStatus,
};
use mapper_control::{ErrorReply, PROTOCOL, Reply};
use mapper_host::enforce::Standing;
use mapper_model::{CpuSet, Reason, Topology};
use mapper_pipeline as pipeline;

impl Daemon {
    pub(crate) fn status(&self, peer: &Peer) -> Status {
        let topology = self.parts.controller.topology();
        let config = self.parts.controller.config();
        let mut free = self.usable.clone();
        for app in &self.apps {
            free.remove_all(&app.effective);
        }
        Status {
            protocol: PROTOCOL,
            daemon: DaemonStatus {
                version: env!("CARGO_PKG_VERSION").to_owned(),
                pid: std::process::id(),
                uptime_ns: self.parts.clock.now_ns().saturating_sub(self.started_ns),
                interval_ns: self.parts.settings.interval.nanoseconds(),
                stretched: self.stretched(),
                decisions: self.decisions,
                allocation: config.allocation.clone(),
                mapping: config.mapping.clone(),
                enforcer: self.parts.enforcer_selection.clone(),
                counters: self.parts.counters_selection.clone(),
                isolation: Some(self.isolation()),
            },
            topology: TopologyStatus {
                cpus: topology.cpus().len(),
                cores: count(topology.cores()),
                sockets: count(topology.sockets()),
                nodes: u32::try_from(topology.nodes().len()).unwrap_or(u32::MAX),
                usable: self.usable.clone(),
                free,
                source: self.parts.topology_source.describe(),
                layout: layout(topology),
            },
            apps: self
                .apps
                .iter()
                .map(|app| match self.may_look_at(peer, app.uid) {
                    true => self.app_status(app),
                    false => outline(app),
                })
                .collect(),
        }
    }

    /// The interval, if it is longer than set.
    fn stretched(&self) -> Option<StretchedInterval> {
        let stretched = self.pacing.stretched()?;
        Some(StretchedInterval {
            interval_ns: stretched.interval_ns,
            asked_ns: stretched.asked_ns,
            pass_ns: stretched.pass_ns,
        })
    }

    fn app_status(&self, app: &App) -> AppStatus {
        let profile = self.parts.controller.profile(app.id);
        let share = app.planned.as_ref().map(|planned| &planned.share);
        let reasons = share.map_or(&[][..], |share| &share.explanation.reasons);
        AppStatus {
            id: app.id,
            name: app.spec.name.clone(),
            pid: app.first_process.pid,
            uid: app.uid,
            command: app.command.clone(),
            state: match (&app.set_by_others, share) {
                (Some(_), _) => "set by others".to_owned(),
                (None, None) if app.limited.is_some() => "limited".to_owned(),
                (None, Some(share)) => share.state.clone(),
                (None, None) => String::new(),
            },
            cpus: app.effective.clone(),
            cpu_count: app.effective.len(),
            fair_cpus: share.map_or(0, |share| share.fair),
            qos: app.spec.qos,
            weight: app.spec.weight,
            min_cpus: app.spec.cpus.min(),
            max_cpus: app.spec.cpus.max(),
            floor: share.and_then(|share| share.floor),
            performance: profile.and_then(|p| p.performance).map(Into::into),
            memory_traffic: profile.and_then(|p| p.memory),
            bottleneck: profile.map(|p| p.bottleneck).unwrap_or_default(),
            teams: app.spec.teams,
            teams_by: app.provenance.teams_by.clone(),
            runtime: runtime_status(app),
            memory: app.memory,
            partition: self.partition_status(app),
            adopted: app.adopted.as_ref().map(|adopted| adopted.target.clone()),
            reasons: told(reasons),
            sentence: match (&app.set_by_others, &app.planned) {
                (Some(cpus), _) => format!(
                    "somebody else set its CPUs to {cpus}; it is left there until all CPUs are \
                     written to its cpuset.cpus"
                ),
                (None, Some(planned)) => planned.sentence.clone(),
                (None, None) => app
                    .limited
                    .as_ref()
                    .map_or_else(String::new, limited::sentence),
            },
        }
    }

    /// Whether applications can be isolated.
    fn isolation(&self) -> Selection {
        match self.parts.enforcer.may_isolate() {
            Ok(()) => Selection {
                name: "remote partitions".to_owned(),
                not_better: Vec::new(),
            },
            Err(error) => Selection {
                name: "none".to_owned(),
                not_better: vec![mapper_host::chain(&error)],
            },
        }
    }

    /// What has become of an isolation that was asked for, or that an earlier daemon left.
    fn partition_status(&self, app: &App) -> Option<PartitionStatus> {
        match self.parts.enforcer.standing(app.id) {
            Standing::Member if app.partition.is_member() => None,
            Standing::Member => Some(PartitionStatus::default()),
            Standing::Isolated => Some(PartitionStatus {
                in_force: Partition::Isolated,
                why_not: None,
            }),
            Standing::NotIsolated(why) => Some(PartitionStatus {
                in_force: Partition::Member,
                why_not: Some(why),
            }),
        }
    }

    pub(crate) fn explain(&self, peer: &Peer, asked: &str) -> Answer {
        let app = self.find_visible(peer, asked)?;
        let Some(explained) = self.parts.controller.explain(app.id) else {
            return Err(self.unknown_application(peer, asked));
        };
        let now_ns = self.parts.clock.now_ns();
        Ok(Served::plain(Reply::Explain(Box::new(ExplainReply {
            protocol: PROTOCOL,
            id: app.id,
            name: app.spec.name.clone(),
            cpus: app.effective.clone(),
            cpu_count: app.effective.len(),
            fair_cpus: explained.fair,
            performance: explained.performance.map(Into::into),
            floor: explained.floor,
            slack: explained.slack,
            spare_cpus: explained.spare,
            norm_eff: explained.norm_eff,
            phase: explained.region_phase,
            spun: explained.spun,
            teams: app.spec.teams,
            teams_by: app.provenance.teams_by.clone(),
            runtime: runtime_status(app),
            stretched: self.stretched(),
            partition: self.partition_status(app),
            curve: explained
                .curve
                .iter()
                .map(|point| CurveEntry {
                    cpus: point.cpus,
                    performance: point.perf,
                    deviation: point.variance.max(0.0).sqrt(),
                    samples: point.samples,
                })
                .collect(),
            decisions: explained
                .decisions
                .into_iter()
                .map(|decision| DecisionEntry {
                    tick: decision.tick,
                    age_ns: now_ns.saturating_sub(decision.now_ns),
                    before: decision.explanation.before,
                    after: decision.explanation.after,
                    cpus: decision.cpus,
                    reasons: told(&decision.explanation.reasons),
                    sentence: decision.sentence,
                })
                .collect(),
        }))))
    }

    /// The application of that name, or else of that number, among those that a user may look into.
    pub(crate) fn find_visible(&self, peer: &Peer, asked: &str) -> Result<&App, ErrorReply> {
        let seen = |app: &&App| self.may_look_at(peer, app.uid) || own_adoption(peer, app);
        self.apps
            .iter()
            .filter(seen)
            .find(|app| app.spec.name.as_str() == asked)
            .or_else(|| {
                let id = asked.parse::<u64>().ok()?;
                self.apps.iter().filter(seen).find(|app| app.id.0 == id)
            })
            .ok_or_else(|| self.unknown_application(peer, asked))
    }

    fn unknown_application(&self, peer: &Peer, asked: &str) -> ErrorReply {
        let asked: String = asked.chars().take(80).collect();
        ErrorReply::UnknownApplication {
            message: format!("no application {asked:?}"),
            running: self
                .apps
                .iter()
                .filter(|app| self.may_look_at(peer, app.uid))
                .map(|app| app.spec.name.clone())
                .collect(),
        }
    }

    pub(crate) fn policies(&self) -> PoliciesReply {
        let config = self.parts.controller.config();
        let policies = pipeline::policies().into_iter().map(|policy| {
            let (kind, used) = match policy.kind {
                pipeline::PolicyKind::Allocation => (PolicyKind::Allocation, &config.allocation),
                pipeline::PolicyKind::Mapping => (PolicyKind::Mapping, &config.mapping),
            };
            PolicyEntry {
                name: policy.name.to_owned(),
                kind,
                summary: policy.summary.to_owned(),
                source: policy.source.to_owned(),
                in_use: policy.name == *used,
            }
        });
        PoliciesReply {
            protocol: PROTOCOL,
            policies: policies.collect(),
        }
    }
}

/// Whether a user had it adopted himself: he may name it, whoever its processes run as.
fn own_adoption(peer: &Peer, app: &App) -> bool {
    app.adopted
        .as_ref()
        .is_some_and(|adopted| adopted.by == peer.uid)
}

/// Where the hardware threads are: sockets, cut by nodes where a socket has several.
fn layout(topology: &Topology) -> Vec<SocketLayout> {
    let mut layout = Vec::new();
    for (socket, cpus) in (0..).zip(topology.sockets()) {
        for node in topology.nodes() {
            let part = topology.node_cpus(node.id).intersection(cpus);
            let cores: Vec<CpuSet> = topology
                .cores()
                .iter()
                .filter(|core| !core.is_disjoint(&part))
                .cloned()
                .collect();
            if !cores.is_empty() {
                layout.push(SocketLayout {
                    socket,
                    node: node.id.0,
                    cores,
                });
            }
        }
    }
    layout
}

/// What is told of another user's application: what anybody can see of it without mapper, and what
/// it takes from others.
fn outline(app: &App) -> AppStatus {
    AppStatus {
        id: app.id,
        name: app.spec.name.clone(),
        pid: app.first_process.pid,
        uid: app.uid,
        command: String::new(),
        state: "another user's".to_owned(),
        cpus: app.effective.clone(),
        cpu_count: app.effective.len(),
        fair_cpus: app.planned.as_ref().map_or(0, |planned| planned.share.fair),
        qos: app.spec.qos,
        weight: app.spec.weight,
        min_cpus: app.spec.cpus.min(),
        max_cpus: app.spec.cpus.max(),
        floor: None,
        performance: None,
        memory_traffic: None,
        bottleneck: mapper_model::Bottleneck::default(),
        teams: app.spec.teams,
        teams_by: String::new(),
        runtime: RuntimeStatus::default(),
        memory: app.memory,
        partition: None,
        adopted: None,
        reasons: Vec::new(),
        sentence: String::new(),
    }
}

/// What the page says of the runtime, as far as it can be told.
fn runtime_status(app: &App) -> RuntimeStatus {
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
    notes.extend(app.provenance.unserved_because());
    let unreachable = app.provenance.unreachable_because();
    notes.extend(report_notes(&report));
    // What it starts may be reached even where it itself is not.
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

/// What the shim found out about the application, in words.
fn report_notes(report: &RuntimeReport) -> Vec<String> {
    let mut notes = Vec::new();
    let flags = [
        (
            ReportFlags::WAITS_SPIN,
            "its barriers may spin for long, so that it suffers when it is shrunk",
        ),
        (
            ReportFlags::SLOTS_EXHAUSTED,
            "it has more threads than slots, so that some share one",
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
            "threads of its virtual teams share thread-local storage where they take turns, as it cannot tell",
        ),
    ];
    for (flag, note) in flags {
        if report.flags.contains(flag) {
            notes.push(note.to_owned());
        }
    }
    if let Some(off) = report.teams_off {
        notes.push(off.to_string());
    }
    match report.preemptions {
        0 => {}
        times => notes.push(format!(
            "regions preempted: {times}, where a thread waited for others without OpenMP, or computed \
             for long"
        )),
    }
    notes
}

fn told(reasons: &[Reason]) -> Vec<ToldReason> {
    reasons.iter().cloned().map(ToldReason::from).collect()
}

fn count(sets: &[CpuSet]) -> u32 {
    u32::try_from(sets.len()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mapper_abi::TeamsOff;

    #[test]
    fn how_a_runtime_is_heard_that_cannot_be_come_before_is_told() {
        let report = RuntimeReport {
            runtimes: Runtimes::LIBOMP,
            flags: ReportFlags::OBSERVED | ReportFlags::WAIT_MEASURED,
            teams_off: Some(TeamsOff::Observed),
            ..RuntimeReport::default()
        };
        let notes = report_notes(&report);
        assert_eq!(notes.len(), 2, "{notes:?}");
        assert!(notes[0].contains("observed by OMPT"), "{notes:?}");
        assert!(notes[1].contains("no way to set their size"), "{notes:?}");
    }

    #[test]
    fn it_is_told_where_threads_share_storage() {
        let report = RuntimeReport {
            flags: ReportFlags::STORAGE_SHARED,
            ..RuntimeReport::default()
        };
        let notes = report_notes(&report);
        assert_eq!(notes.len(), 1, "{notes:?}");
        assert!(notes[0].contains("share thread-local storage"), "{notes:?}");
    }

    #[test]
    fn what_ended_for_good_is_told() {
        let report = RuntimeReport {
            flags: ReportFlags::PARKING_ENDED | ReportFlags::WAIT_MEASURED,
            teams_off: Some(TeamsOff::Stalled),
            preemptions: 6,
            ..RuntimeReport::default()
        };
        let notes = report_notes(&report);
        assert_eq!(notes.len(), 3, "{notes:?}");
        for (note, word) in notes.iter().zip([
            "parking ended",
            "teams are not virtual",
            "regions preempted: 6",
        ]) {
            assert!(note.starts_with(word), "{note}");
        }
        assert!(report_notes(&RuntimeReport::default()).is_empty());
    }
}
