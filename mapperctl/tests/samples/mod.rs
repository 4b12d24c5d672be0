//! Replies of a daemon that manages three applications.

use mapper_control::PROTOCOL;
use mapper_control::schema::*;
use mapper_model::{
    AppId, AppName, Bottleneck, CpuSet, PerformanceSource, Qos, Reason, RegionPhase, TeamMode,
    Weight,
};

fn cpus(list: &str) -> CpuSet {
    list.parse().unwrap()
}

fn performance(value: f64, source: PerformanceSource) -> PerformanceStatus {
    PerformanceStatus {
        value,
        source,
        unit: source.unit().into(),
    }
}

fn app(id: u64, name: &str, list: &str) -> AppStatus {
    let cpus = cpus(list);
    AppStatus {
        id: AppId(id),
        name: AppName::new(name).unwrap(),
        pid: 4000 + u32::try_from(id).unwrap(),
        uid: 1000,
        account: None,
        command: format!("./{name}"),
        state: "steady".into(),
        cpu_count: cpus.len(),
        cpus,
        fair_cpus: 16,
        borrowed: None,
        idle_time: None,
        qos: Qos::default(),
        weight: Weight::default(),
        min_cpus: 1,
        max_cpus: None,
        floor: None,
        performance: None,
        memory_traffic: None,
        bottleneck: Bottleneck::None,
        teams: TeamMode::Fixed,
        teams_by: "by default".into(),
        runtime: RuntimeStatus::default(),
        memory: MemoryPolicy::Keep,
        partition: None,
        adopted: None,
        reasons: vec![],
        sentence: String::new(),
    }
}

/// Two sockets, each a node of its own, with twelve cores of two hardware threads.
fn layout() -> Vec<SocketLayout> {
    let core = |first: u32| cpus(&format!("{first},{}", first + 24));
    [0, 1]
        .map(|socket| SocketLayout {
            socket,
            node: socket,
            cores: (socket * 12..socket * 12 + 12).map(core).collect(),
        })
        .into()
}

/// A daemon without applications.
pub(crate) fn idle() -> Status {
    Status {
        protocol: PROTOCOL,
        daemon: DaemonStatus {
            version: "0.1.0".into(),
            pid: 812,
            uptime_ns: 11_530_000_000_000,
            interval_ns: 1_000_000_000,
            stretched: None,
            held_up: None,
            decisions: 11_530,
            allocation: "mapper".into(),
            mapping: "sam_mph".into(),
            enforcer: Selection {
                name: "cgroup v2 cpuset in /sys/fs/cgroup/mapper.slice".into(),
                not_better: vec![],
            },
            isolation: Some(Selection {
                name: "none".into(),
                not_better: vec!["no isolated CPUs: this kernel knows no remote partitions; use Linux 6.7 or later".into()],
            }),
            counters: Selection {
                name: "runtime progress and CPU time".into(),
                not_better: vec![
                    "hardware counters: perf_event_open: no such device (no PMU in this virtual machine)".into(),
                ],
            },
        },
        topology: TopologyStatus {
            cpus: 48,
            cores: 24,
            sockets: 2,
            nodes: 2,
            usable: cpus("0-47"),
            free: cpus("44-47"),
            source: "hwloc".into(),
            layout: layout(),
        },
        apps: vec![],
    }
}

/// A daemon with three applications.
pub(crate) fn status() -> Status {
    let mut md = app(3, "md", "0-11,24-31");
    md.floor = Some(1_050_000.0);
    md.performance = Some(performance(1_234_567.0, PerformanceSource::Runtime));
    md.bottleneck = Bottleneck::Sharing;
    md.teams = TeamMode::Follow;
    md.runtime = RuntimeStatus {
        state: RuntimeState::Attached,
        runtimes: vec!["libgomp".into()],
        notes: vec![],
    };
    md.reasons = vec![
        Reason::TookFrom {
            giver: AppId(4),
            cpus: 4,
            giver_eff: 0.61,
            own_eff: 0.94,
        }
        .into(),
    ];
    md.sentence = "16 → 20 CPUs: took 4 from `cg`, whose efficiency is 0.61 against 0.94".into();

    let mut cg = app(4, "cg", "12-23");
    cg.state = "exploring".into();
    cg.floor = Some(0.9);
    cg.performance = Some(performance(0.812, PerformanceSource::Ipc));
    cg.bottleneck = Bottleneck::Memory;
    cg.runtime.state = RuntimeState::Waiting;
    cg.reasons = vec![
        Reason::PromiseBroken {
            performance: 0.812,
            floor: 0.9,
        }
        .into(),
    ];
    cg.sentence = "12 CPUs: fell to 0.81 below its floor 0.90, so what it gave is undone".into();

    let mut long = app(5, "a-program-with-a-rather-long-name", "32,34,36,38,40-43");
    long.state = "measuring \u{1b}]0;owned\u{7} at its fair share".into();
    long.sentence = "new, 8 CPUs: arrived, fair share 16; \u{1b}[2J".into();
    long.reasons = vec![Reason::Arrived { fair: 16 }.into()];
    long.runtime.state = RuntimeState::Unreachable;
    long.runtime.notes = vec![
        "libgomp is linked statically into /opt/long; mapper moves CPUs only".into(),
        "waiting spins, as OMP_WAIT_POLICY=active was set".into(),
    ];

    let mut status = idle();
    status.daemon.stretched = Some(stretched());
    status.apps = vec![md, cg, long];
    status
}

fn stretched() -> StretchedInterval {
    StretchedInterval {
        interval_ns: 1_300_000_000,
        asked_ns: 1_000_000_000,
        pass_ns: 25_125_000,
    }
}

/// The first of them at length.
pub(crate) fn explain() -> ExplainReply {
    let point = |cpus, performance, deviation, samples| CurveEntry {
        cpus,
        performance,
        deviation,
        samples,
    };
    let decision = |tick, age_ns, before, after, list: &str, sentence: &str| DecisionEntry {
        tick,
        age_ns,
        before,
        after,
        cpus: cpus(list),
        reasons: vec![Reason::Steady.into()],
        sentence: sentence.into(),
    };
    ExplainReply {
        protocol: PROTOCOL,
        id: AppId(3),
        name: AppName::new("md").unwrap(),
        cpus: cpus("0-11,24-31"),
        cpu_count: 20,
        fair_cpus: 16,
        performance: Some(performance(1_234_567.0, PerformanceSource::Runtime)),
        floor: Some(1_050_000.0),
        slack: Some(184_567.0),
        spare_cpus: 2,
        norm_eff: Some(0.94),
        phase: Some(RegionPhase {
            number: 2,
            count: 3,
            region: 0x40_1136,
        }),
        spun: Some(0.125),
        teams: TeamMode::Virtual,
        teams_by: "rule 2 of /etc/mapper/mapper.toml".into(),
        runtime: RuntimeStatus {
            state: RuntimeState::Attached,
            runtimes: vec!["libgomp".into()],
            notes: vec![],
        },
        stretched: Some(stretched()),
        partition: None,
        curve: vec![
            point(8, 702_000.0, 12_000.0, 4.0),
            point(16, 1_180_000.0, 20_500.0, 2.5),
            point(20, 1_234_567.0, 0.0, 1.0),
        ],
        decisions: vec![
            decision(
                11_500,
                31_000_000_000,
                0,
                16,
                "0-11,24-27",
                "new, 16 CPUs: arrived, fair share 16",
            ),
            decision(
                11_529,
                1_000_000_000,
                16,
                20,
                "0-11,24-31",
                "16 → 20 CPUs: took 4 from `cg`, whose efficiency is 0.61 against 0.94",
            ),
            decision(11_530, 20_000_000, 20, 20, "0-11,24-31", "20 CPUs: steady"),
        ],
    }
}

/// Some policies.
pub(crate) fn policies() -> PoliciesReply {
    let entry = |name: &str, kind, summary: &str, source: &str, in_use| PolicyEntry {
        name: name.into(),
        kind,
        summary: summary.into(),
        source: source.into(),
        in_use,
    };
    PoliciesReply {
        protocol: PROTOCOL,
        policies: vec![
            entry(
                "mapper",
                PolicyKind::Allocation,
                "steals CPUs for those that use them best, as long as every promise is kept; remembers what was tried",
                "MAPPER §3.3",
                true,
            ),
            entry(
                "fair",
                PolicyKind::Allocation,
                "equal shares by weight",
                "MAPPER §3.3 eq. 1",
                false,
            ),
            entry(
                "sam_mph",
                PolicyKind::Mapping,
                "keeps sharers together and spreads what needs memory bandwidth",
                "SAM-MPH §3, MAPPER §3.4",
                true,
            ),
        ],
    }
}

/// Of a program that scales, of one that is mostly serial, and of one that has ended.
pub(crate) fn advice() -> AdviseReply {
    let named = |name| AppName::new(name).unwrap();
    AdviseReply {
        protocol: 2,
        policy: "mapper-next".to_owned(),
        cpus: 4,
        programs: vec![
            ProgramAdvice {
                app: Some(AppId(1)),
                name: named("md"),
                cpu_count: Some(2),
                one_more: Some(0.47),
                speeds: vec![0.27, 0.52, 0.765, 1.0],
            },
            ProgramAdvice {
                app: Some(AppId(2)),
                name: named("cg"),
                cpu_count: Some(2),
                one_more: Some(0.03),
                speeds: vec![0.9, 0.95, 0.98, 1.0],
            },
            ProgramAdvice {
                app: None,
                name: named("fft"),
                cpu_count: None,
                one_more: None,
                speeds: vec![0.4, 0.6, 0.8, 1.0],
            },
        ],
        pairs: vec![
            PairAdvice {
                names: [named("md"), named("cg")],
                cpus: [3, 1],
                speeds: [0.765, 0.9],
                work: 1.665,
            },
            PairAdvice {
                names: [named("md"), named("fft")],
                cpus: [2, 2],
                speeds: [0.52, 0.6],
                work: 1.12,
            },
        ],
    }
}

/// A history of three applications: one that kept its promise, one that did not, and one too brief to be judged.
pub(crate) fn history() -> HistoryReply {
    let ended = |app: u64, name: &str, achieved, ago_s: u64, cpus: [u32; 2]| EndedApp {
        app: AppId(app),
        name: AppName::new(name).unwrap(),
        uid: 1000,
        command: format!("./{name} --steps 5000"),
        ended_ago_ns: ago_s * 1_000_000_000,
        exit_status: (app != 4).then_some(0),
        qos: Qos::default(),
        account: Account {
            managed_ns: 95_000_000_000,
            given_cpu_ns: 150_000_000_000,
            used_cpu_ns: Some(140_000_000_000),
            judged_intervals: if app == 4 { 0 } else { 80 },
            violations: 5,
            achieved,
            moves: 3,
            fewest_cpus: cpus[0],
            most_cpus: cpus[1],
            ..Account::default()
        },
    };
    HistoryReply {
        protocol: PROTOCOL,
        ended: vec![
            ended(6, "fit_a", Some(1.02), 12, [1, 2]),
            ended(5, "fit_b", Some(0.71), 4000, [12, 24]),
            ended(4, "ls", None, 200_000, [2, 2]),
        ],
    }
}
