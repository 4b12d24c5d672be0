//! The picture of a daemon, asked anew each second by the calls that any user may make.

use super::marks::Marks;
use super::picture::{Decision, Ended, Picture, Program, Source};
use super::timeline::{Sample, Seen, Timeline};
use mapper_control::schema::{AppStatus, EndedApp, ExplainReply, Status};
use mapper_control::{Client, ClientError, ClientErrorKind};
use mapper_model::{AppId, CpuSet};
use mapperctl::{harmless, span};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const EVERY: Duration = Duration::from_secs(1);
const PATIENCE: Duration = Duration::from_secs(10);
/// How far back charts go.
const WINDOW_NS: u64 = 300_000_000_000;
/// Programs shown with a card each.
pub(super) const MOST_PROGRAMS: usize = 60;

/// What is known so far. Others read it while [`watch`] brings it up to date.
pub(super) struct Live(Mutex<State>);

struct State {
    picture: Picture,
    marks: Marks,
    /// The process of the daemon that answered last.
    daemon: Option<u32>,
}

/// What a daemon answers in one second.
struct Answers {
    status: Status,
    explained: BTreeMap<AppId, ExplainReply>,
    ended: Vec<EndedApp>,
}

impl Default for Live {
    fn default() -> Self {
        let picture = Picture {
            source: Source::NoDaemon(String::new()),
            machine: None,
            programs: Vec::new(),
            more_programs: 0,
            timeline: Timeline::default(),
            ended: Vec::new(),
        };
        Self(Mutex::new(State {
            picture,
            marks: Marks::default(),
            daemon: None,
        }))
    }
}

impl Live {
    pub(super) fn read<T>(&self, look: impl FnOnce(&Picture, &Marks) -> T) -> T {
        let state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        look(&state.picture, &state.marks)
    }

    /// Asks the daemon each second, for as long as the program runs.
    pub(super) fn watch(&self, socket: &Path) {
        let begun = Instant::now();
        let mut line = Line::new(socket);
        loop {
            let asked = Instant::now();
            let answers = line.ask();
            let now_ns = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
            {
                let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                state.update(answers, now_ns);
            }
            std::thread::sleep(EVERY.saturating_sub(asked.elapsed()));
        }
    }
}

impl State {
    fn update(&mut self, answers: Result<Answers, ClientError>, now_ns: u64) {
        let State {
            picture,
            marks,
            daemon,
        } = self;
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                picture.source = Source::NoDaemon(why(&error));
                picture.programs.clear();
                picture.machine = None;
                picture.timeline.add(Sample {
                    at_ns: now_ns,
                    programs: Vec::new(),
                });
                picture.timeline.forget_before(WINDOW_NS);
                return;
            }
        };
        let Answers {
            status,
            explained,
            ended,
        } = answers;
        if daemon.replace(status.daemon.pid) != Some(status.daemon.pid) {
            // Another daemon may give other programs the same ids.
            picture.timeline = Timeline::default();
        }
        picture.timeline.add(Sample {
            at_ns: now_ns,
            programs: status.apps.iter().map(seen).collect(),
        });
        picture.timeline.forget_before(WINDOW_NS);
        marks.keep(&picture.timeline.programs());
        let shown = status.apps.iter().take(MOST_PROGRAMS);
        picture.programs = shown
            .map(|app| program(app, explained.get(&app.id)))
            .collect();
        picture.more_programs = status.apps.len() - picture.programs.len();
        picture.ended = ended.iter().map(of_history).collect();
        picture.source = Source::Daemon(about(&status));
        picture.machine = Some(status.topology);
    }
}

fn why(error: &ClientError) -> String {
    match error.kind {
        ClientErrorKind::NotFound | ClientErrorKind::Refused => String::new(),
        _ => harmless(&error.to_string()),
    }
}

fn about(status: &Status) -> String {
    let daemon = &status.daemon;
    let every = daemon
        .stretched
        .map_or(daemon.interval_ns, |now| now.interval_ns);
    format!(
        "mapperd {}, process {}, decides every {} by the policies {} and {}",
        daemon.version,
        daemon.pid,
        span(every),
        daemon.allocation,
        daemon.mapping
    )
}

fn seen(app: &AppStatus) -> Seen {
    let speed = app.performance.as_ref().zip(app.floor);
    Seen {
        id: app.id,
        cpus: app.cpus.clone(),
        borrowed: app.borrowed.clone().unwrap_or_default(),
        speed: speed.and_then(|(performance, floor)| {
            let speed = performance.value / floor;
            (speed.is_finite() && speed >= 0.0).then_some(speed)
        }),
    }
}

fn program(app: &AppStatus, explained: Option<&ExplainReply>) -> Program {
    let decisions = explained.map_or(&[][..], |reply| reply.decisions.as_slice());
    let decision = |made: &mapper_control::schema::DecisionEntry| Decision {
        when: format!("{} ago", span(made.age_ns)),
        cpus: made.cpus.clone(),
        sentence: harmless(&made.sentence),
    };
    Program {
        id: app.id,
        name: harmless(app.name.as_str()),
        command: harmless(&app.command),
        cpus: app.cpus.clone(),
        borrowed: app.borrowed.clone().unwrap_or_default(),
        state: harmless(&app.state),
        fair_cpus: app.fair_cpus,
        qos: app.qos,
        measured_by: app
            .performance
            .as_ref()
            .map(|performance| performance.source.to_string()),
        sentence: harmless(&app.sentence),
        decisions: decisions.iter().rev().map(decision).collect(),
    }
}

fn of_history(app: &EndedApp) -> Ended {
    Ended {
        id: app.app,
        name: harmless(app.name.as_str()),
        command: harmless(&app.command),
        when: format!("{} ago", span(app.ended_ago_ns)),
        ran: app.account.time_in_words(),
        speed: app
            .account
            .achieved
            .map(|achieved| achieved / app.qos.get()),
        exit_status: app.exit_status,
    }
}

/// A connection to the daemon, made anew when it is lost, and what need not be asked again.
struct Line {
    socket: PathBuf,
    client: Option<Client>,
    explained: BTreeMap<AppId, Known>,
}

/// What the daemon explained of an application, and the state of it that this was asked for.
struct Known {
    sentence: String,
    cpus: CpuSet,
    asked: Instant,
    reply: ExplainReply,
}

impl Line {
    fn new(socket: &Path) -> Self {
        Self {
            socket: socket.to_owned(),
            client: None,
            explained: BTreeMap::new(),
        }
    }

    fn ask(&mut self) -> Result<Answers, ClientError> {
        let answers = self.try_ask();
        if answers.is_err() {
            self.client = None;
            self.explained.clear();
        }
        answers
    }

    fn try_ask(&mut self) -> Result<Answers, ClientError> {
        let client = match &mut self.client {
            Some(client) => client,
            None => self.client.insert(Client::connect(&self.socket, PATIENCE)?),
        };
        let status = client.status()?;
        self.explained
            .retain(|id, _| status.apps.iter().any(|app| app.id == *id));
        for app in status.apps.iter().take(MOST_PROGRAMS) {
            let known = self.explained.get(&app.id);
            if known.is_some_and(|known| known.sentence == app.sentence && known.cpus == app.cpus) {
                continue;
            }
            match client.explain(&app.id.to_string()) {
                Ok(reply) => {
                    let known = Known {
                        sentence: app.sentence.clone(),
                        cpus: app.cpus.clone(),
                        asked: Instant::now(),
                        reply,
                    };
                    self.explained.insert(app.id, known);
                }
                // It has ended meanwhile, or is another user's.
                Err(error) if matches!(error.kind, ClientErrorKind::Daemon(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let ended = client.history()?.ended;
        let aged = |(id, known): (&AppId, &Known)| (*id, known.aged());
        Ok(Answers {
            status,
            explained: self.explained.iter().map(aged).collect(),
            ended,
        })
    }
}

impl Known {
    /// The reply as it would be now.
    fn aged(&self) -> ExplainReply {
        let age_ns = u64::try_from(self.asked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        let mut reply = self.reply.clone();
        for decision in &mut reply.decisions {
            decision.age_ns = decision.age_ns.saturating_add(age_ns);
        }
        reply
    }
}
