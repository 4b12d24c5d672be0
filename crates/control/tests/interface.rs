//! The interface description against the messages themselves: every method and error is there, and
//! every message has the fields it says, of the types it says.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a test that cannot go on shall panic

use mapper_control::schema::*;
use mapper_control::{
    Call, ErrorReply, Expects, INTERFACE, INTERFACE_DESCRIPTION, PROTOCOL, Reply, Request,
    SERVICE_DESCRIPTION,
};
use mapper_model::{
    AppId, AppName, Bottleneck, CpuRange, CpuSet, Explanation, Lending, PerformanceSource, Qos,
    Reason, RegionPhase, TeamMode, Weight,
};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// A Varlink type.
#[derive(Clone, PartialEq, Debug)]
enum Type {
    Named(String),
    Struct(BTreeMap<String, Type>),
    Enum(BTreeSet<String>),
    Array(Box<Type>),
    Maybe(Box<Type>),
}

/// What an interface description says.
#[derive(Default, Debug)]
struct Interface {
    name: String,
    types: BTreeMap<String, Type>,
    calls: BTreeMap<String, Type>,
    replies: BTreeMap<String, Type>,
    errors: BTreeMap<String, Type>,
}

/// Reads the language of <https://varlink.org/Interface-Definition>, as far as it is used here.
struct Reader<'t> {
    words: std::iter::Peekable<std::vec::IntoIter<&'t str>>,
}

impl<'t> Reader<'t> {
    fn new(text: &'t str) -> Self {
        let mut words = Vec::new();
        for line in text.lines() {
            let mut rest = line.split('#').next().unwrap_or("").trim();
            while !rest.is_empty() {
                let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
                let mut end = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
                if end == 0 {
                    end = ["->", "[]"]
                        .iter()
                        .find(|mark| rest.starts_with(**mark))
                        .map_or(1, |mark| mark.len());
                }
                words.push(&rest[..end]);
                rest = rest[end..].trim_start();
            }
        }
        Self {
            words: words.into_iter().peekable(),
        }
    }

    fn next(&mut self) -> &'t str {
        self.words.next().expect("the text ended too early")
    }

    fn expect(&mut self, word: &str) {
        assert_eq!(self.next(), word);
    }

    fn interface(mut self) -> Interface {
        let mut out = Interface::default();
        self.expect("interface");
        out.name = self.next().to_owned();
        while self.words.peek().is_some() {
            let (what, name) = (self.next(), self.next().to_owned());
            assert!(name.starts_with(|c: char| c.is_ascii_uppercase()), "{name}");
            match what {
                "type" => drop(out.types.insert(name, self.fields())),
                "error" => drop(out.errors.insert(name, self.fields())),
                "method" => {
                    out.calls.insert(name.clone(), self.fields());
                    self.expect("->");
                    out.replies.insert(name, self.fields());
                }
                other => panic!("{other}"),
            }
        }
        out
    }

    /// A structure or an enumeration in parentheses.
    fn fields(&mut self) -> Type {
        self.expect("(");
        let (mut fields, mut names) = (BTreeMap::new(), BTreeSet::new());
        loop {
            match self.next() {
                ")" => break,
                "," => {}
                name => match self.words.peek() {
                    Some(&":") => {
                        self.expect(":");
                        assert!(fields.insert(name.to_owned(), self.a_type()).is_none());
                    }
                    _ => assert!(names.insert(name.to_owned()), "{name}"),
                },
            }
        }
        assert!(fields.is_empty() || names.is_empty());
        if names.is_empty() {
            Type::Struct(fields)
        } else {
            Type::Enum(names)
        }
    }

    fn a_type(&mut self) -> Type {
        match self.words.peek() {
            Some(&"?") => {
                self.expect("?");
                Type::Maybe(Box::new(self.a_type()))
            }
            Some(&"[]") => {
                self.expect("[]");
                Type::Array(Box::new(self.a_type()))
            }
            Some(&"(") => self.fields(),
            _ => Type::Named(self.next().to_owned()),
        }
    }
}

impl Interface {
    /// Checks a message against its type. Every field must be described; every described field
    /// that is not optional must be there.
    fn check(&self, value: &Value, expected: &Type, place: &str) {
        let wrong = || panic!("{place}: {value} is not {expected:?}");
        match (expected, value) {
            (Type::Maybe(_), Value::Null) => {}
            (Type::Maybe(inner), value) => self.check(value, inner, place),
            (Type::Array(inner), Value::Array(items)) => {
                assert!(!items.is_empty(), "{place}: the sample checks nothing");
                for item in items {
                    self.check(item, inner, &format!("{place}[]"));
                }
            }
            (Type::Enum(names), Value::String(name)) if names.contains(name) => {}
            (Type::Struct(fields), Value::Object(members)) => {
                for (name, member) in members {
                    let place = format!("{place}.{name}");
                    let described = fields.get(name);
                    let described = described.unwrap_or_else(|| panic!("{place}: not described"));
                    self.check(member, described, &place);
                }
                for (name, described) in fields {
                    let optional = matches!(described, Type::Maybe(_));
                    assert!(
                        optional || members.contains_key(name),
                        "{place}.{name}: missing"
                    );
                }
            }
            (Type::Named(name), value) => match (name.as_str(), value) {
                ("int", Value::Number(n)) if n.is_i64() => {}
                ("float", Value::Number(_))
                | ("string", Value::String(_))
                | ("bool", Value::Bool(_))
                | ("object", Value::Object(_)) => {}
                _ => match self.types.get(name) {
                    Some(described) => self.check(value, described, place),
                    None => wrong(),
                },
            },
            _ => wrong(),
        }
    }
}

fn ours() -> Interface {
    Reader::new(INTERFACE_DESCRIPTION).interface()
}

fn name(text: &str) -> AppName {
    AppName::new(text).unwrap()
}

fn performance() -> PerformanceStatus {
    PerformanceStatus {
        value: 1.5,
        source: PerformanceSource::Runtime,
        unit: "progress/s".into(),
    }
}

fn selection() -> Selection {
    Selection {
        name: "cgroup".into(),
        not_better: vec!["perf: none".into()],
    }
}

/// A launch with every field given.
fn launch() -> LaunchRequest {
    let wishes = Wishes {
        qos: Some(Qos::default()),
        cpus: CpuRange::new(1, Some(4)).unwrap(),
        lending: Some(Lending::Never),
        teams: Some(TeamsWish::Named(TeamMode::Virtual)),
        threads: Wish::Asked(Threads::All),
        schedule: Wish::Environment,
        runtime: Some(RuntimeChoice::On),
        partition: Some(Partition::Isolated),
        ..Wishes::named(name("fft"))
    };
    let mut request = LaunchRequest::new(7, ["./fft", "-n"], wishes);
    request.program = Some(Program {
        path: "/usr/bin/fft".into(),
        build_id: Some("00ff".into()),
        openmp: LinkedOpenMp::StaticLibgomp,
    });
    request
}

fn requests() -> Vec<Request> {
    vec![
        Request::Launch(Box::new(launch())),
        Request::Exited(ExitedRequest {
            app: AppId(1),
            status: 0,
        }),
        Request::Status,
        Request::Explain(ExplainRequest { name: "fft".into() }),
        Request::Policies,
        Request::Report(ReportRequest { app: AppId(3) }),
        Request::Advise,
        Request::History,
        Request::Adopt(Box::new(adopt(AdoptTarget::Pid(7)))),
        Request::Adopt(Box::new(adopt(AdoptTarget::Cgroup("/jobs".into())))),
        Request::Adopt(Box::new(adopt(AdoptTarget::Unit("a.service".into())))),
        Request::Release(ReleaseRequest { name: "fft".into() }),
        Request::Promise(PromiseRequest {
            name: Some("fft".into()),
            qos: Qos::default(),
        }),
        Request::Reload,
    ]
}

/// An adoption with every field given.
fn adopt(target: AdoptTarget) -> AdoptRequest {
    AdoptRequest {
        name: Some(name("fft")),
        qos: Some(Qos::default()),
        cpus: CpuRange::new(1, Some(4)).unwrap(),
        ..AdoptRequest::of(target)
    }
}

fn stretched() -> StretchedInterval {
    StretchedInterval {
        interval_ns: 1_300_000_000,
        asked_ns: 20_000_000,
        pass_ns: 25_000_000,
    }
}

/// A status with every field given.
fn status() -> Status {
    Status {
        protocol: PROTOCOL,
        daemon: DaemonStatus {
            version: "0.1.0".into(),
            pid: 1,
            uptime_ns: 5,
            interval_ns: 1_000_000_000,
            stretched: Some(stretched()),
            decisions: 4,
            allocation: "mapper".into(),
            mapping: "sam_mph".into(),
            enforcer: selection(),
            counters: selection(),
            isolation: Some(selection()),
            held_up: Some(HeldUpChange {
                change: "write".to_owned(),
                lasting_ns: 1,
            }),
        },
        topology: TopologyStatus {
            cpus: 4,
            cores: 2,
            sockets: 1,
            nodes: 1,
            usable: CpuSet::first(4),
            free: CpuSet::first(1),
            source: "hwloc".into(),
            layout: vec![SocketLayout {
                socket: 0,
                node: 0,
                cores: vec![CpuSet::first(2)],
            }],
        },
        apps: vec![AppStatus {
            id: AppId(1),
            name: name("fft"),
            pid: 7,
            uid: 1000,
            account: Some(1001),
            command: "./fft".into(),
            state: "steady".into(),
            cpus: CpuSet::first(2),
            cpu_count: 2,
            fair_cpus: 2,
            borrowed: Some(CpuSet::first(1)),
            idle_time: None,
            qos: Qos::default(),
            weight: Weight::default(),
            min_cpus: 1,
            max_cpus: Some(4),
            floor: Some(1.2),
            performance: Some(performance()),
            memory_traffic: Some(mapper_model::MemoryRate {
                total_bytes_per_s: Some(3.5e9),
                local_bytes_per_s: None,
            }),
            bottleneck: Bottleneck::Memory,
            teams: TeamMode::Follow,
            teams_by: "as asked".into(),
            runtime: RuntimeStatus {
                state: RuntimeState::Attached,
                runtimes: vec!["libgomp".into()],
                notes: vec!["spins".into()],
            },
            memory: MemoryPolicy::Local,
            partition: Some(PartitionStatus {
                in_force: Partition::Member,
                why_not: Some("Linux 6.1".into()),
            }),
            adopted: Some(AdoptTarget::Unit("fft.service".into())),
            reasons: vec![Reason::Steady.into()],
            sentence: "2 CPUs: steady".into(),
        }],
    }
}

fn account() -> Account {
    Account {
        managed_ns: 5,
        used_cpu_ns: Some(3),
        achieved: Some(0.9),
        floor: Some(1.0),
        performance: Some(performance()),
        ..Account::default()
    }
}

fn replies() -> BTreeMap<&'static str, Reply> {
    BTreeMap::from([
        (
            "Launch",
            Reply::Launch(LaunchReply {
                protocol: PROTOCOL,
                app: AppId(1),
                name: name("fft"),
                cpus: CpuSet::first(2),
                cpu_count: 2,
                machine_cpus: 2,
                token: Some("00ff".into()),
                terms: Terms {
                    teams: TeamMode::Virtual,
                    teams_by: "rule 1".into(),
                    threads: Some(Threads::All),
                    schedule: Some(Schedule::Adaptive),
                    max_cpus: Some(2),
                },
            }),
        ),
        ("Exited", Reply::Exited {}),
        ("Status", Reply::Status(Box::new(status()))),
        (
            "Explain",
            Reply::Explain(Box::new(ExplainReply {
                protocol: PROTOCOL,
                id: AppId(1),
                name: name("fft"),
                cpus: CpuSet::first(2),
                cpu_count: 2,
                fair_cpus: 2,
                performance: Some(performance()),
                floor: Some(1.0),
                slack: Some(0.5),
                spare_cpus: 1,
                norm_eff: Some(1.1),
                phase: Some(RegionPhase {
                    number: 2,
                    count: 3,
                    region: 0x40_1000,
                }),
                spun: Some(0.2),
                teams: TeamMode::Fixed,
                teams_by: "by default".into(),
                runtime: RuntimeStatus {
                    state: RuntimeState::Unreachable,
                    runtimes: vec!["libgomp".into()],
                    notes: vec!["static".into()],
                },
                stretched: Some(stretched()),
                partition: Some(PartitionStatus::default()),
                curve: vec![CurveEntry {
                    cpus: 2,
                    performance: 1.5,
                    deviation: 0.1,
                    samples: 2.0,
                }],
                decisions: vec![DecisionEntry {
                    tick: 3,
                    age_ns: 1,
                    before: 1,
                    after: 2,
                    cpus: CpuSet::first(2),
                    reasons: vec![Reason::Steady.into()],
                    sentence: Explanation::default().sentence(&|_| None),
                }],
            })),
        ),
        (
            "Policies",
            Reply::Policies(PoliciesReply {
                protocol: PROTOCOL,
                policies: vec![PolicyEntry {
                    name: "mapper".into(),
                    kind: PolicyKind::Allocation,
                    summary: "shares".into(),
                    source: "MAPPER".into(),
                    in_use: true,
                }],
            }),
        ),
        (
            "Advise",
            Reply::Advise(AdviseReply {
                protocol: PROTOCOL,
                policy: "mapper-next".into(),
                cpus: 2,
                programs: vec![ProgramAdvice {
                    app: Some(AppId(3)),
                    name: name("fft"),
                    cpu_count: Some(1),
                    one_more: Some(0.5),
                    speeds: vec![0.6, 1.0],
                }],
                pairs: vec![PairAdvice {
                    names: [name("fft"), name("cg")],
                    cpus: [1, 1],
                    speeds: [0.6, 0.7],
                    work: 1.3,
                }],
            }),
        ),
        (
            "History",
            Reply::History(HistoryReply {
                protocol: PROTOCOL,
                ended: vec![EndedApp {
                    app: AppId(3),
                    name: name("fft"),
                    uid: 1000,
                    command: "./fft -n".into(),
                    ended_ago_ns: 5,
                    exit_status: Some(0),
                    qos: Qos::default(),
                    account: account(),
                }],
            }),
        ),
        (
            "Report",
            Reply::Report(Box::new(ReportReply {
                protocol: PROTOCOL,
                app: AppId(3),
                name: AppName::new("fft").unwrap(),
                qos: Qos::default(),
                account: account(),
            })),
        ),
        (
            "Adopt",
            Reply::Adopt(AdoptReply {
                protocol: PROTOCOL,
                app: AppId(3),
                name: name("fft"),
                adopted: AdoptTarget::Pid(7),
                processes: 2,
                cpus: CpuSet::first(2),
                cpu_count: 2,
            }),
        ),
        (
            "Release",
            Reply::Release(ReleaseReply {
                protocol: PROTOCOL,
                app: AppId(3),
                name: name("fft"),
                adopted: AdoptTarget::Cgroup("/jobs".into()),
                trouble: Some("its group is gone".into()),
            }),
        ),
        (
            "Promise",
            Reply::Promise(PromiseReply {
                protocol: PROTOCOL,
                app: AppId(3),
                name: name("fft"),
                qos: Qos::default(),
                before: Qos::default(),
            }),
        ),
        (
            "Reload",
            Reply::Reload(ReloadReply {
                protocol: PROTOCOL,
                changed: vec!["interval: 1s → 2s".into()],
                needs_restart: vec!["socket: a → b".into()],
            }),
        ),
    ])
}

fn message(bytes: Result<Vec<u8>, mapper_control::codec::FrameError>) -> Value {
    let mut bytes = bytes.unwrap();
    assert_eq!(bytes.pop(), Some(0));
    serde_json::from_slice(&bytes).unwrap()
}

#[test]
fn the_description_lists_every_method_and_no_other() {
    let ours = ours();
    assert_eq!(ours.name, INTERFACE);
    let mut called = BTreeSet::new();
    for request in requests() {
        let expects = Expects::Reply;
        let call = message(Call { request, expects }.encode());
        let method = call["method"].as_str().unwrap();
        let method = method.strip_prefix("org.mapper.Control.").unwrap();
        let parameters = call.get("parameters").cloned().unwrap_or_else(|| json!({}));
        ours.check(&parameters, &ours.calls[method], method);
        called.insert(method.to_owned());
    }
    assert_eq!(called, ours.calls.keys().cloned().collect());
}

#[test]
fn every_reply_is_as_described() {
    let ours = ours();
    let replies = replies();
    assert!(
        replies
            .keys()
            .copied()
            .eq(ours.replies.keys().map(String::as_str))
    );
    for (method, reply) in replies {
        let reply = message(reply.encode());
        ours.check(&reply["parameters"], &ours.replies[method], method);
    }
}

#[test]
fn every_error_is_as_described() {
    let ours = ours();
    let message_text = || "why".to_owned();
    let mut described = ours.errors.clone();
    for error in [
        ErrorReply::InvalidParameter {
            message: message_text(),
        },
        ErrorReply::NotPermitted {
            message: message_text(),
        },
        ErrorReply::UnknownApplication {
            message: message_text(),
            running: vec![name("fft")],
        },
        ErrorReply::WrongProtocol {
            message: message_text(),
            protocol: 2,
        },
        ErrorReply::Unavailable {
            message: message_text(),
        },
        ErrorReply::Internal {
            message: message_text(),
        },
    ] {
        let error = message(error.encode());
        let name = error["error"].as_str().unwrap();
        let name = name.strip_prefix("org.mapper.Control.").unwrap();
        let expected = described.remove(name).unwrap_or_else(|| panic!("{name}"));
        ours.check(&error["parameters"], &expected, name);
    }
    assert!(described.is_empty(), "{described:?}");
}

#[test]
fn every_described_type_is_used() {
    let ours = ours();
    for name in ours.types.keys() {
        let uses = INTERFACE_DESCRIPTION
            .split(|c: char| !c.is_ascii_alphanumeric())
            .filter(|word| word == name)
            .count();
        assert!(uses > 1, "{name}");
    }
}

#[test]
fn the_service_interface_can_be_read_too() {
    let service = Reader::new(SERVICE_DESCRIPTION).interface();
    assert_eq!(service.name, "org.varlink.service");
    let info = message(Reply::Info(ServiceInfo::of_daemon("0.1.0")).encode());
    service.check(&info["parameters"], &service.replies["GetInfo"], "GetInfo");
}

/// As many applications as a daemon manages, each with the longest texts that a user can choose; a control character
/// takes six bytes.
#[test]
fn the_status_of_all_applications_can_be_sent_whatever_users_chose() {
    let mut status = status();
    let app = AppStatus {
        command: "\u{1}".repeat(1024),
        adopted: Some(AdoptTarget::Cgroup("\u{1}".repeat(4096))),
        reasons: vec![Reason::Steady.into(); 20],
        ..status.apps.remove(0)
    };
    status.apps = vec![app.clone(); 1024];
    let sent = |status: &Status| {
        let message = Reply::Status(Box::new(status.clone())).encode().unwrap();
        let reply: Value = serde_json::from_slice(message.strip_suffix(&[0]).unwrap()).unwrap();
        serde_json::from_value::<Status>(reply["parameters"].clone()).unwrap()
    };
    let read = sent(&status);
    assert_eq!(read, status.brief());
    assert_eq!(read.apps.len(), 1024);
    assert!(read.apps[0].command.ends_with('…'));

    // Nothing is left out where all of it fits.
    status.apps = vec![app; 10];
    assert_eq!(sent(&status), status);
}
